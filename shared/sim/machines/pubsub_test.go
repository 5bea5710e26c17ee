package machines

import (
	"context"
	"log/slog"
	"testing"
	"time"

	client "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/convoke-hpc/convoke/events"
	"github.com/convoke-hpc/convoke/shared/cluster"
	"github.com/convoke-hpc/convoke/shared/sim/pubsub"
)

// post is a broker with the official client, and what is told through it.
type post struct {
	*testing.T
	*PubSub
	ctx      context.Context
	client   *client.Client
	now      time.Time
	commands chan *events.SlurmCommand
}

func newPost(t *testing.T) *post {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	quiet := slog.New(slog.DiscardHandler)
	broker, err := pubsub.New(pubsub.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	c, err := client.NewClient(ctx, "team-train", option.WithEndpoint(broker.Addr()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, topic := range []string{events.TopicSlurm, events.TopicCommands} {
		if _, err := c.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/team-train/topics/" + topic}); err != nil {
			t.Fatal(err)
		}
	}
	p := NewPubSub(c, quiet)
	t.Cleanup(p.Close)
	return &post{T: t, PubSub: p, ctx: ctx, client: c, now: cluster.Moment(time.Now()), commands: make(chan *events.SlurmCommand, 10)}
}

// listen receives a cluster's commands until the test ends.
func (p *post) listen(key cluster.Key) {
	p.Helper()
	receiving, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Receive(receiving, key, func(cmd *events.SlurmCommand) { p.commands <- cmd }); err != nil {
			p.Error(err)
		}
	}()
	p.Cleanup(func() { cancel(); <-done })
}

func (p *post) send(key cluster.Key, id string) {
	p.Helper()
	cmd := cluster.Command{Kind: cluster.CommandDrain, Nodes: []cluster.NodeID{{Pool: "a3u"}}, ID: id}
	err := p.Publish(p.ctx, events.TopicCommands, &events.Event{
		ID: id, Source: "//test", Type: events.TypeSlurmCommand, Time: p.now, Payload: events.CommandOf(key, cmd, p.now, time.Time{}),
	})
	if err != nil {
		p.Fatal(err)
	}
}

func (p *post) expect(id string) {
	p.Helper()
	select {
	case cmd := <-p.commands:
		if cmd.ID != id {
			p.Errorf("received %+v, want %s", cmd, id)
		}
	case <-p.ctx.Done():
		p.Fatalf("%s was not received", id)
	}
}

func testKey(id string) cluster.Key {
	return cluster.Key{Project: "team-train", Location: "us-central1", ID: id}
}

func TestWhatIsPublishedCanBeReadAndFiltered(t *testing.T) {
	p := newPost(t)
	key := testKey("c1")
	if _, err := p.client.SubscriptionAdminClient.CreateSubscription(p.ctx, &pubsubpb.Subscription{
		Name: "projects/team-train/subscriptions/all", Topic: "projects/team-train/topics/" + events.TopicSlurm,
	}); err != nil {
		t.Fatal(err)
	}
	said := &events.Event{
		ID: "boot-7", Source: Source(key, "c1-a3u-0"), Type: events.TypeNodeBoot, Time: p.now,
		Payload: &events.NodeBoot{Cluster: key, Node: "c1-a3u-0", InstanceID: 7, OK: true, Time: p.now},
	}
	if err := p.Publish(p.ctx, events.TopicSlurm, said); err != nil {
		t.Fatal(err)
	}
	receiving, stop := context.WithCancel(p.ctx)
	defer stop()
	err := p.client.Subscriber("all").Receive(receiving, func(_ context.Context, m *client.Message) {
		m.Ack()
		stop()
		raw, carried, err := events.FromMessage(events.Message{ID: m.ID, Data: m.Data, Attributes: m.Attributes}, "")
		if !carried || err != nil || m.Attributes[events.AttributeCluster] != key.Doc() {
			t.Errorf("%v, carried %v, %v", m.Attributes, carried, err)
			return
		}
		if e, err := events.Decode(raw); err != nil || e.ID != "boot-7" || e.Source != said.Source || e.Key() != key {
			t.Errorf("%+v, %v", e, err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAControllerReceivesItsOwnCommands(t *testing.T) {
	p := newPost(t)
	key := testKey("c1")
	if err := p.subscribe(p.ctx, key, p.subscription(key)); err != nil { // as an earlier controller did
		t.Fatal(err)
	}
	p.send(testKey("c2"), "not-ours")
	_, err := p.client.Publisher(events.TopicCommands).Publish(p.ctx, &client.Message{
		Data: []byte("garbage"), Attributes: map[string]string{events.AttributeCluster: key.Doc()},
	}).Get(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.send(key, "early") // it waits for the controller
	p.listen(key)
	p.expect("early")
	p.send(key, "late")
	p.expect("late")
}

func TestACommandThatCannotBeRead(t *testing.T) {
	for name, m := range map[string]*client.Message{
		"no event":      {Data: []byte("garbage")},
		"bad event":     {Data: []byte("garbage"), Attributes: map[string]string{"ce-specversion": "1.0", "ce-type": events.TypeSlurmCommand, "ce-id": "x", "ce-source": "x"}},
		"bad version":   {Attributes: map[string]string{"ce-specversion": "7"}},
		"another event": {Data: []byte("{}"), Attributes: map[string]string{"ce-specversion": "1.0", "ce-type": events.TypeTick, "ce-id": "x", "ce-source": "x"}},
	} {
		if cmd, err := command(m); err == nil {
			t.Errorf("%s was read as %+v", name, cmd)
		}
	}
}
