package pubsub

import (
	"context"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	minRetention      = 10 * time.Minute
	maxRetention      = 31 * 24 * time.Hour
	defaultPage       = 100
	maxPage           = 1000
	defaultAckSeconds = 10
)

// A topic is a name under which messages are published, and the subscriptions that get them. The broker's lock guards it.
type topic struct {
	config        *pubsubpb.Topic // replaced, never changed
	subscriptions []*subscription // by name, so that equal runs do things in equal order
}

func (t *topic) attach(s *subscription) {
	i, _ := slices.BinarySearchFunc(t.subscriptions, s.name, func(other *subscription, name string) int {
		return strings.Compare(other.name, name)
	})
	t.subscriptions = slices.Insert(t.subscriptions, i, s)
}

func (t *topic) detach(s *subscription) {
	t.subscriptions = slices.DeleteFunc(t.subscriptions, func(other *subscription) bool { return other == s })
}

// publisher serves google.pubsub.v1.Publisher.
type publisher struct {
	pubsubpb.UnimplementedPublisherServer
	b *Broker
}

func (p publisher) CreateTopic(_ context.Context, req *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	config, err := checkTopic(req)
	if err != nil {
		return nil, err
	}
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if p.b.topics[config.Name] != nil {
		return nil, alreadyExists(config.Name)
	}
	if err := p.b.commit(putTopic(config), nil); err != nil {
		return nil, err
	}
	p.b.topics[config.Name] = &topic{config: config}
	return config, nil
}

func (p publisher) UpdateTopic(_ context.Context, req *pubsubpb.UpdateTopicRequest) (*pubsubpb.Topic, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	t := p.b.topics[req.GetTopic().GetName()]
	if t == nil {
		return nil, notFound(req.GetTopic().GetName())
	}
	config, _ := proto.Clone(t.config).(*pubsubpb.Topic)
	var wrong faults
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		wrong.add("update_mask", "names no field")
	}
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "labels":
			config.Labels = req.Topic.Labels
		case "message_retention_duration":
			config.MessageRetentionDuration = req.Topic.MessageRetentionDuration
		case "message_storage_policy":
			config.MessageStoragePolicy = req.Topic.MessageStoragePolicy
		default:
			wrong.add("update_mask", "%q cannot be updated", path)
		}
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	config, err := checkTopic(config)
	if err != nil {
		return nil, err
	}
	if err := p.b.commit(putTopic(config), nil); err != nil {
		return nil, err
	}
	t.config = config
	return config, nil
}

func (p publisher) GetTopic(_ context.Context, req *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	t, err := p.b.topic(req.GetTopic())
	if err != nil {
		return nil, err
	}
	return t.config, nil
}

func (p publisher) ListTopics(_ context.Context, req *pubsubpb.ListTopicsRequest) (*pubsubpb.ListTopicsResponse, error) {
	project, err := parseProject(req.GetProject())
	if err != nil {
		return nil, faults{"project: " + err.Error()}.err()
	}
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	names, next, err := page(ofProject(maps.Keys(p.b.topics), project), req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	res := &pubsubpb.ListTopicsResponse{NextPageToken: next}
	for _, name := range names {
		res.Topics = append(res.Topics, p.b.topics[name].config)
	}
	return res, nil
}

func (p publisher) ListTopicSubscriptions(_ context.Context, req *pubsubpb.ListTopicSubscriptionsRequest) (*pubsubpb.ListTopicSubscriptionsResponse, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	t, err := p.b.topic(req.GetTopic())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range t.subscriptions {
		names = append(names, s.name)
	}
	names, next, err := page(names, req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &pubsubpb.ListTopicSubscriptionsResponse{Subscriptions: names, NextPageToken: next}, nil
}

// ListTopicSnapshots says truthfully that there are none.
func (p publisher) ListTopicSnapshots(_ context.Context, req *pubsubpb.ListTopicSnapshotsRequest) (*pubsubpb.ListTopicSnapshotsResponse, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if _, err := p.b.topic(req.GetTopic()); err != nil {
		return nil, err
	}
	return &pubsubpb.ListTopicSnapshotsResponse{}, nil
}

// DeleteTopic leaves the topic's subscriptions with the backlog that they have.
func (p publisher) DeleteTopic(_ context.Context, req *pubsubpb.DeleteTopicRequest) (*emptypb.Empty, error) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	t, err := p.b.topic(req.GetTopic())
	if err != nil {
		return nil, err
	}
	changes := []change{dropTopic(t.config.Name)}
	var configs []*pubsubpb.Subscription
	for _, s := range t.subscriptions {
		config := s.cloneConfig()
		config.Topic = deletedTopic
		configs = append(configs, config)
		changes = append(changes, putSubscription(config))
	}
	err = p.b.commit(together(changes...), func() {
		for i, s := range t.subscriptions {
			s.configure(configs[i])
		}
	})
	if err != nil {
		return nil, err
	}
	delete(p.b.topics, t.config.Name)
	return &emptypb.Empty{}, nil
}

// topic finds a topic; the broker's lock is held.
func (b *Broker) topic(name string) (*topic, error) {
	if _, err := parseName("topics", name); err != nil {
		return nil, faults{"topic: " + err.Error()}.err()
	}
	t := b.topics[name]
	if t == nil {
		return nil, notFound(name)
	}
	return t, nil
}

// commit makes a change durable and waits for it.
func (b *Broker) commit(c change, applied func()) error {
	return unavailable(b.journal.submit(c, applied)())
}

// unavailable is the status for a change that could not be made durable.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return status.Errorf(codes.Unavailable, "the broker cannot write: %v", err)
}

func checkTopic(req *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	var wrong faults
	_, err := parseName("topics", req.GetName())
	wrong.addError("name", err)
	wrong.addError("message_retention_duration", checkRetention(req.GetMessageRetentionDuration()))
	if err := wrong.err(); err != nil {
		return nil, err
	}
	if req.SchemaSettings != nil || req.IngestionDataSourceSettings != nil || len(req.MessageTransforms) > 0 {
		return nil, status.Error(codes.Unimplemented, "schemas, ingestion and transforms are not served by this broker")
	}
	config, _ := proto.Clone(req).(*pubsubpb.Topic)
	config.State = pubsubpb.Topic_ACTIVE
	return config, nil
}

func checkRetention(d *durationpb.Duration) error {
	if d == nil {
		return nil
	}
	if err := d.CheckValid(); err != nil {
		return err
	}
	return checkBetween(d.AsDuration(), minRetention, maxRetention)
}

func ofProject(names func(func(string) bool), project string) []string {
	var own []string
	for name := range names {
		if strings.HasPrefix(name, "projects/"+project+"/") {
			own = append(own, name)
		}
	}
	return own
}

// page cuts one page out of a list of names; its token is the last name of the page before.
func page(names []string, size int32, token string) (part []string, next string, err error) {
	if size < 0 {
		return nil, "", faults{"page_size: is negative"}.err()
	}
	if size == 0 {
		size = defaultPage
	}
	size = min(size, maxPage)
	slices.Sort(names)
	names = names[sort.Search(len(names), func(i int) bool { return names[i] > token }):]
	if len(names) <= int(size) {
		return names, "", nil
	}
	return names[:size], names[size-1], nil
}
