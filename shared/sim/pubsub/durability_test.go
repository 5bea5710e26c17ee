package pubsub

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	client "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.etcd.io/bbolt"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestRestart: topics, subscriptions, what is not acknowledged and how often it was refused survive.
func TestRestart(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "pubsub.db"), Logger: quiet()}
	o.Handlers = map[string]http.Handler{"h": answer(http.StatusServiceUnavailable)}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, b)
	createTopic(t, c, topicName)
	createTopic(t, c, deadName)
	subscribe(t, c, &pubsubpb.Subscription{Name: deadSub, Topic: topicName, Filter: "NOT attributes:dull"})
	subscribe(t, c, &pubsubpb.Subscription{
		Name: subName, Topic: topicName, PushConfig: pushTo("http://h/"),
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadName, MaxDeliveryAttempts: 100},
	})
	first := publish(t, c, &client.Message{Data: []byte("a"), Attributes: map[string]string{"k": "v"}})
	publish(t, c, &client.Message{Data: []byte("b")})
	receive(t, c, deadSub, 2)
	until(t, "three refusals", func() bool { return statsOf(t, b, subName).Nacked >= 3 })
	stop(t, b)
	refused := statsOf(t, b, subName).Nacked

	var mu sync.Mutex
	got := map[string]envelope{}
	o.Handlers = map[string]http.Handler{"h": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e envelope
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got[string(e.Message.Data)] = e
	})}
	b = start(t, o)
	idle(t, b)
	a := got["a"]
	if len(got) != 2 || a.Message.MessageID != first[0] || a.Message.Attributes["k"] != "v" {
		t.Errorf("pushed after the restart: %+v", got)
	}
	if attempts := a.DeliveryAttempt + got["b"].DeliveryAttempt - 2; attempts != int(refused) {
		t.Errorf("%d refusals before the restart are %d after it", refused, attempts)
	}
	c = connect(t, b)
	for _, s := range b.Stats() {
		if s.Backlog != 0 {
			t.Errorf("%s still holds %d", s.Name, s.Backlog)
		}
	}
	if more := publish(t, c, &client.Message{Data: []byte("c"), Attributes: map[string]string{"dull": ""}}); more[0] <= first[0] {
		t.Errorf("id %s after %s", more[0], first[0])
	}
	idle(t, b)
	if s := statsOf(t, b, deadSub); s.Backlog != 0 {
		t.Errorf("the filter was lost: %+v", s)
	}
}

// TestIDsGoOnRising: an id is never given twice, even when the clock was set back between two brokers and nothing that
// the first one accepted is left.
func TestIDsGoOnRising(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "pubsub.db"), Logger: quiet()}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.lastID = 1 << 62 // given when the clock was far ahead
	b.mu.Unlock()
	c := connect(t, b)
	createTopic(t, c, topicName)
	publish(t, c, texts("to nobody")...)
	stop(t, b)
	if id := publish(t, connect(t, start(t, o)), texts("x")...)[0]; id != fmt.Sprint(1<<62+2) {
		t.Errorf("the next id is %s", id)
	}
}

// TestFileShrinks: what is acknowledged leaves the file, and so does what a deleted subscription held.
func TestFileShrinks(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "pubsub.db"), Logger: quiet()}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName})
	subscribe(t, c, &pubsubpb.Subscription{Name: deadSub, Topic: topicName, Filter: "attributes:both"})
	publish(t, c, texts("1", "2", "3")...)
	publish(t, c, &client.Message{Attributes: map[string]string{"both": ""}})
	receive(t, c, subName, 4)
	if messages, places := countStored(t, b); messages != 1 || places != 1 {
		t.Errorf("%d messages in %d places", messages, places)
	}
	if err := c.SubscriptionAdminClient.DeleteSubscription(patiently(t), &pubsubpb.DeleteSubscriptionRequest{Subscription: deadSub}); err != nil {
		t.Fatal(err)
	}
	if messages, places := countStored(t, b); messages != 0 || places != 0 {
		t.Errorf("%d messages in %d places", messages, places)
	}
	stop(t, b)
}

// countStored counts what the file holds once everything handed to the journal is written.
func countStored(t *testing.T, b *Broker) (messages, places int) {
	t.Helper()
	j, ok := b.journal.(*fileJournal)
	if !ok {
		t.Fatal("no file")
	}
	if err := b.commit(func(*bbolt.Tx) error { return nil }, nil); err != nil {
		t.Fatal(err)
	}
	err := j.db.View(func(tx *bbolt.Tx) error {
		messages = tx.Bucket(messageBucket).Stats().KeyN
		return tx.Bucket(backlogBucket).ForEachBucket(func(k []byte) error {
			places += tx.Bucket(backlogBucket).Bucket(k).Stats().KeyN
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages, places
}

// TestFileFaults: a file that cannot be used says why.
func TestFileFaults(t *testing.T) {
	dir := t.TempDir()
	used := filepath.Join(dir, "used.db")
	start(t, Options{File: used})
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	future := filepath.Join(dir, "future.db")
	j, err := openJournal(future, quiet())
	if err != nil {
		t.Fatal(err)
	}
	wait := j.submit(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, []byte("2")) }, nil)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	if err := j.submit(nil, nil)(); err == nil {
		t.Error("a closed journal takes changes")
	}
	tests := map[string]string{
		used:                          "another process has it open",
		garbage:                       "opening " + garbage,
		future:                        `it has format "2", this broker reads "1"`,
		filepath.Join(dir, "no", "x"): "no such file or directory",
	}
	for file, want := range tests {
		_, err := New(Options{File: file, Logger: quiet()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

// TestConcurrentPublishers: many publishers on one file, all answered, all delivered once, in rising order of ids.
func TestConcurrentPublishers(t *testing.T) {
	const publishers, each = 16, 20
	var mu sync.Mutex
	got := map[string]int{}
	b := start(t, Options{
		File: filepath.Join(t.TempDir(), "pubsub.db"),
		Handlers: map[string]http.Handler{"h": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var e envelope
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[e.Message.MessageID]++
		})},
	})
	c := connect(t, b)
	createTopic(t, c, topicName)
	subscribe(t, c, &pubsubpb.Subscription{Name: subName, Topic: topicName, PushConfig: pushTo("http://h/")})
	var ids []string
	var group sync.WaitGroup
	for range publishers {
		group.Go(func() {
			for range each {
				res, err := c.TopicAdminClient.Publish(patiently(t), &pubsubpb.PublishRequest{
					Topic: topicName, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}},
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids = append(ids, res.MessageIds...)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	idle(t, b)
	if len(ids) != publishers*each || len(got) != publishers*each {
		t.Fatalf("published %d, delivered %d", len(ids), len(got))
	}
	for _, id := range ids {
		if got[id] != 1 {
			t.Errorf("%s was delivered %d times", id, got[id])
		}
	}
}

const childFileEnv = "CONVOKE_TEST_PUBSUB_FILE"

// publishUntilKilled publishes from several goroutines and prints the id of each message that the broker accepted, and
// "-" and the id of each that it took back as acknowledged.
func publishUntilKilled(file string) error {
	b, err := New(Options{File: file, Logger: quiet()})
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := client.NewClient(ctx, "test", option.WithEndpoint(b.Addr()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return err
	}
	if _, err := c.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topicName}); err != nil {
		return err
	}
	for _, name := range []string{subName, deadSub} {
		if _, err := c.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{Name: name, Topic: topicName}); err != nil {
			return err
		}
	}
	var mu sync.Mutex
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = os.Stdout.WriteString(line + "\n")
	}
	failed := make(chan error, 1)
	for range 8 {
		go func() {
			for {
				res, err := c.TopicAdminClient.Publish(ctx, &pubsubpb.PublishRequest{
					Topic: topicName, Messages: []*pubsubpb.PubsubMessage{{Data: []byte(strings.Repeat("x", 500))}},
				})
				if err != nil {
					failed <- err
					return
				}
				say(res.MessageIds[0])
			}
		}()
	}
	go func() { // every message of the second subscription is acknowledged
		failed <- c.Subscriber(deadSub).Receive(ctx, func(_ context.Context, m *client.Message) { m.Ack() })
	}()
	return <-failed
}

// TestKilled kills a broker in the middle of its work: everything that it accepted and that was not acknowledged is
// delivered by the next one.
func TestKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pubsub.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), childFileEnv+"="+file)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var accepted []string
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line that was cut off was not said
		}
		accepted = append(accepted, strings.TrimSuffix(line, "\n"))
		if len(accepted) == 500 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // it was killed
	if len(accepted) < 500 {
		t.Fatalf("the broker accepted only %d messages before it ended", len(accepted))
	}

	b := start(t, Options{File: file})
	c := connect(t, b)
	backlog := statsOf(t, b, subName).Backlog
	if backlog < len(accepted) {
		t.Errorf("%d messages were accepted, %d are kept", len(accepted), backlog)
	}
	var kept []string
	for _, m := range receive(t, c, subName, backlog) {
		kept = append(kept, m.ID)
	}
	slices.Sort(kept)
	for _, id := range accepted {
		if _, ok := slices.BinarySearch(kept, id); !ok {
			t.Errorf("message %s was accepted and lost", id)
		}
	}
	if n := statsOf(t, b, deadSub).Backlog; n > backlog {
		t.Errorf("the acknowledged subscription holds %d of %d", n, backlog)
	}
	if id := publish(t, c, texts("next")...)[0]; id <= kept[len(kept)-1] {
		t.Errorf("the next id %s is not new", id)
	}
	fmt.Fprintln(t.Output(), "accepted", len(accepted), "kept", backlog, "of the acknowledged ones kept", statsOf(t, b, deadSub).Backlog)
}
