package local

import (
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/convoke-hpc/convoke/events"
)

// topicDeadLetters is where messages go that could not be delivered, however often it was tried, and the subscription that
// holds them there for a person.
const topicDeadLetters = "dead-letters"

// pushes says which functions each topic is pushed to. It is what the deployment has (folder infra), name by name.
var pushes = map[string][]string{
	events.TopicRequests:  {"clusters"},
	events.TopicSlurm:     {"resize", "preemption", "hardware"},
	events.TopicInstances: {"preemption", "hardware"},
	events.TopicTicks:     {"reconcile"},
	events.TopicCommands:  nil, // pulled by the agents, each through a subscription of its own
	topicDeadLetters:      nil,
}

// eventarc says which function Eventarc calls with an audit-log entry of which method.
var eventarc = map[string]string{"v1.compute.instances.delete": "preemption"}

// sunk reports whether the log sink passes an audit-log entry of that log and method on to the topic of instance events.
func sunk(logName, method string) bool {
	return strings.HasSuffix(logName, "%2Fsystem_event") ||
		strings.HasSuffix(logName, "%2Factivity") && strings.Contains(method, "compute.instances.delete")
}

const (
	ackDeadline    = 180 // s
	retention      = 7 * 24 * time.Hour
	tickRetention  = 10 * time.Minute
	attempts       = 20
	deadLetterWait = 60 // s, the time that a person's tool has for one
)

func topicName(project, topic string) string { return "projects/" + project + "/topics/" + topic }

func subscriptionName(project, id string) string {
	return "projects/" + project + "/subscriptions/" + id
}

// topics are all topics of a project, sorted.
func topics(project string) []*pubsubpb.Topic {
	var out []*pubsubpb.Topic
	for t := range pushes {
		out = append(out, &pubsubpb.Topic{Name: topicName(project, t)})
	}
	slices.SortFunc(out, func(a, b *pubsubpb.Topic) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// subscriptions are all subscriptions of a project but those of the agents, sorted. base is the URL below which the
// functions are.
func subscriptions(project, base string, pace Pace) []*pubsubpb.Subscription {
	never := &pubsubpb.ExpirationPolicy{}
	out := []*pubsubpb.Subscription{{
		Name: subscriptionName(project, topicDeadLetters), Topic: topicName(project, topicDeadLetters), AckDeadlineSeconds: deadLetterWait,
		MessageRetentionDuration: durationpb.New(retention), ExpirationPolicy: never,
	}}
	for topic, functions := range pushes {
		keep := retention
		if topic == events.TopicTicks {
			keep = tickRetention
		}
		for _, f := range functions {
			out = append(out, &pubsubpb.Subscription{
				Name: subscriptionName(project, topic+"-"+f), Topic: topicName(project, topic), AckDeadlineSeconds: ackDeadline,
				MessageRetentionDuration: durationpb.New(keep), ExpirationPolicy: never,
				PushConfig:       &pubsubpb.PushConfig{PushEndpoint: base + "/" + f},
				RetryPolicy:      &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(pace.RetryMin), MaximumBackoff: durationpb.New(pace.RetryMax)},
				DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicName(project, topicDeadLetters), MaxDeliveryAttempts: attempts},
			})
		}
	}
	slices.SortFunc(out, func(a, b *pubsubpb.Subscription) int { return strings.Compare(a.Name, b.Name) })
	return out
}
