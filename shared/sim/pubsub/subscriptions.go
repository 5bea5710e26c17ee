package pubsub

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	minAckDeadline    = 10 * time.Second
	maxAckDeadline    = 600 * time.Second
	maxBackoff        = 600 * time.Second
	defaultRetention  = 7 * 24 * time.Hour
	minAttempts       = 5
	maxAttempts       = 100
	defaultExpiration = 31 * 24 * time.Hour
)

// subscriber serves google.pubsub.v1.Subscriber.
type subscriber struct {
	pubsubpb.UnimplementedSubscriberServer
	b *Broker
}

func (r subscriber) CreateSubscription(_ context.Context, req *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	config, err := checkSubscription(req)
	if err != nil {
		return nil, err
	}
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.b.subscriptions[config.Name] != nil {
		return nil, alreadyExists(config.Name)
	}
	if r.b.topics[config.Topic] == nil {
		return nil, notFound(config.Topic)
	}
	if err := r.b.checkDeadLetterTopic(config); err != nil {
		return nil, err
	}
	s, err := r.b.newSubscription(config)
	if err != nil {
		return nil, err
	}
	if err := r.b.commit(putSubscription(config), nil); err != nil {
		return nil, err
	}
	r.b.attach(s)
	return config, nil
}

func (r subscriber) GetSubscription(_ context.Context, req *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	s, err := r.b.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	return s.currentConfig(), nil
}

func (r subscriber) ListSubscriptions(_ context.Context, req *pubsubpb.ListSubscriptionsRequest) (*pubsubpb.ListSubscriptionsResponse, error) {
	project, err := parseProject(req.GetProject())
	if err != nil {
		return nil, faults{"project: " + err.Error()}.err()
	}
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	names, next, err := page(ofProject(maps.Keys(r.b.subscriptions), project), req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	res := &pubsubpb.ListSubscriptionsResponse{NextPageToken: next}
	for _, name := range names {
		res.Subscriptions = append(res.Subscriptions, r.b.subscriptions[name].currentConfig())
	}
	return res, nil
}

// updatable are the fields that UpdateSubscription may set. As with the real service, topic, filter and ordering are
// settled when the subscription is created.
var updatable = map[string]func(to, from *pubsubpb.Subscription){
	"push_config":                func(to, from *pubsubpb.Subscription) { to.PushConfig = from.PushConfig },
	"ack_deadline_seconds":       func(to, from *pubsubpb.Subscription) { to.AckDeadlineSeconds = from.AckDeadlineSeconds },
	"retry_policy":               func(to, from *pubsubpb.Subscription) { to.RetryPolicy = from.RetryPolicy },
	"dead_letter_policy":         func(to, from *pubsubpb.Subscription) { to.DeadLetterPolicy = from.DeadLetterPolicy },
	"labels":                     func(to, from *pubsubpb.Subscription) { to.Labels = from.Labels },
	"message_retention_duration": func(to, from *pubsubpb.Subscription) { to.MessageRetentionDuration = from.MessageRetentionDuration },
	"expiration_policy":          func(to, from *pubsubpb.Subscription) { to.ExpirationPolicy = from.ExpirationPolicy },
}

func (r subscriber) UpdateSubscription(_ context.Context, req *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription, error) {
	var wrong faults
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		wrong.add("update_mask", "names no field")
	}
	for _, path := range req.GetUpdateMask().GetPaths() {
		if updatable[path] == nil {
			wrong.add("update_mask", "%q cannot be updated, only %v", path, slices.Sorted(maps.Keys(updatable)))
		}
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return r.b.reconfigure(req.GetSubscription().GetName(), func(config *pubsubpb.Subscription) {
		for _, path := range req.UpdateMask.Paths {
			updatable[path](config, req.Subscription)
		}
	})
}

func (r subscriber) ModifyPushConfig(_ context.Context, req *pubsubpb.ModifyPushConfigRequest) (*emptypb.Empty, error) {
	_, err := r.b.reconfigure(req.GetSubscription(), func(config *pubsubpb.Subscription) {
		config.PushConfig = req.GetPushConfig()
	})
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// reconfigure changes a copy of a subscription's configuration, checks it, and puts it into force.
func (b *Broker) reconfigure(name string, edit func(*pubsubpb.Subscription)) (*pubsubpb.Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subscriptions[name]
	if s == nil {
		return nil, notFound(name)
	}
	config := s.cloneConfig()
	edit(config)
	config, err := checkSubscription(config)
	if err != nil {
		return nil, err
	}
	if err := b.checkDeadLetterTopic(config); err != nil {
		return nil, err
	}
	if err := b.commit(putSubscription(config), func() { s.configure(config) }); err != nil {
		return nil, err
	}
	return config, nil
}

func (r subscriber) DeleteSubscription(_ context.Context, req *pubsubpb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	s := r.b.subscriptions[req.GetSubscription()]
	if s == nil {
		return nil, notFound(req.GetSubscription())
	}
	delete(r.b.subscriptions, s.name)
	if t := r.b.topics[s.currentConfig().Topic]; t != nil {
		t.detach(s)
	}
	if err := r.b.commit(dropSubscription(s.name, s.retire()), nil); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// subscription finds a subscription; the broker's lock is not held.
func (b *Broker) subscription(name string) (*subscription, error) {
	if _, err := parseName("subscriptions", name); err != nil {
		return nil, faults{"subscription: " + err.Error()}.err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subscriptions[name]
	if s == nil {
		return nil, notFound(name)
	}
	return s, nil
}

func (b *Broker) checkDeadLetterTopic(config *pubsubpb.Subscription) error {
	name := config.GetDeadLetterPolicy().GetDeadLetterTopic()
	if name != "" && b.topics[name] == nil {
		return notFound(name)
	}
	return nil
}

// checkSubscription returns the configuration with its defaults filled in, or everything that is wrong with it.
func checkSubscription(req *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if err := refuseUnserved(req); err != nil {
		return nil, err
	}
	config, _ := proto.Clone(req).(*pubsubpb.Subscription)
	if config.AckDeadlineSeconds == 0 {
		config.AckDeadlineSeconds = defaultAckSeconds
	}
	if config.PushConfig == nil {
		config.PushConfig = &pubsubpb.PushConfig{}
	}
	if config.MessageRetentionDuration == nil {
		config.MessageRetentionDuration = durationpb.New(defaultRetention)
	}
	if config.ExpirationPolicy == nil {
		config.ExpirationPolicy = &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(defaultExpiration)}
	}
	config.State = pubsubpb.Subscription_ACTIVE

	var wrong faults
	_, err := parseName("subscriptions", config.Name)
	wrong.addError("name", err)
	if config.Topic != deletedTopic {
		_, err := parseName("topics", config.Topic)
		wrong.addError("topic", err)
	}
	wrong.addError("ack_deadline_seconds",
		checkBetween(time.Duration(config.AckDeadlineSeconds)*time.Second, minAckDeadline, maxAckDeadline))
	wrong.addError("push_config.push_endpoint", checkEndpoint(config.PushConfig.PushEndpoint))
	wrong.addError("message_retention_duration", checkRetention(config.MessageRetentionDuration))
	_, err = parseFilter(config.Filter)
	wrong.addError("filter", err)
	checkRetryPolicy(&wrong, config.RetryPolicy)
	checkDeadLetterPolicy(&wrong, config.DeadLetterPolicy)
	return config, wrong.err()
}

func refuseUnserved(req *pubsubpb.Subscription) error {
	switch {
	case req.GetEnableExactlyOnceDelivery():
		return status.Error(codes.Unimplemented, "exactly-once delivery is not served by this broker")
	case req.GetBigqueryConfig() != nil, req.GetCloudStorageConfig() != nil, req.GetBigtableConfig() != nil:
		return status.Error(codes.Unimplemented, "export subscriptions are not served by this broker")
	case len(req.GetMessageTransforms()) > 0:
		return status.Error(codes.Unimplemented, "message transforms are not served by this broker")
	case req.GetRetainAckedMessages():
		return status.Error(codes.Unimplemented, "acknowledged messages are not retained by this broker")
	}
	return nil
}

// checkRetryPolicy also fills in what a policy leaves out.
func checkRetryPolicy(wrong *faults, policy *pubsubpb.RetryPolicy) {
	if policy == nil {
		return
	}
	if policy.MinimumBackoff == nil {
		policy.MinimumBackoff = durationpb.New(defaultMinimumBackoff)
	}
	if policy.MaximumBackoff == nil {
		policy.MaximumBackoff = durationpb.New(defaultMaximumBackoff)
	}
	least, most := policy.MinimumBackoff.AsDuration(), policy.MaximumBackoff.AsDuration()
	wrong.addError("retry_policy.minimum_backoff", checkBetween(least, 0, maxBackoff))
	wrong.addError("retry_policy.maximum_backoff", checkBetween(most, 0, maxBackoff))
	if least > most {
		wrong.add("retry_policy", "minimum_backoff %v is longer than maximum_backoff %v", least, most)
	}
}

// checkDeadLetterPolicy also fills in what a policy leaves out.
func checkDeadLetterPolicy(wrong *faults, policy *pubsubpb.DeadLetterPolicy) {
	if policy == nil {
		return
	}
	if policy.MaxDeliveryAttempts == 0 {
		policy.MaxDeliveryAttempts = minAttempts
	}
	_, err := parseName("topics", policy.DeadLetterTopic)
	wrong.addError("dead_letter_policy.dead_letter_topic", err)
	if n := policy.MaxDeliveryAttempts; n < minAttempts || n > maxAttempts {
		wrong.add("dead_letter_policy.max_delivery_attempts", "is %d, %d to %d are allowed", n, minAttempts, maxAttempts)
	}
}

func checkEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not an http or https URL with a host", endpoint)
	}
	return nil
}

func checkBetween(d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("is %v, %v to %v are allowed", d, least, most)
	}
	return nil
}
