package events

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
)

// AttributeCluster is the attribute of a Pub/Sub message that names the cluster (cluster.Key.Doc), for subscriptions that
// filter on it.
const AttributeCluster = "cluster"

const (
	attributePrefix      = "ce-"
	attributeContentType = "content-type"
)

// Message is a Pub/Sub message, as far as events are concerned.
type Message struct {
	ID          string
	Published   time.Time
	Data        []byte
	Attributes  map[string]string
	OrderingKey string
}

// ToMessage is the event as a Pub/Sub message in the binary mode of the CloudEvents binding: attributes in the message's
// attributes, each with the prefix "ce-", the payload as the data.
func ToMessage(e *Event) (Message, error) {
	event, err := e.CloudEvent()
	if err != nil {
		return Message{}, err
	}
	m := Message{
		Data: event.Data(),
		Attributes: map[string]string{
			attributePrefix + "specversion": event.SpecVersion(),
			attributePrefix + "id":          event.ID(),
			attributePrefix + "type":        event.Type(),
			attributePrefix + "source":      event.Source(),
			attributePrefix + "time":        event.Time().UTC().Format(time.RFC3339Nano),
			attributeContentType:            event.DataContentType(),
		},
	}
	if k := e.Key(); !k.IsZero() {
		m.Attributes[attributePrefix+"subject"] = event.Subject()
		m.Attributes[AttributeCluster] = k.Doc()
	}
	return m, nil
}

// FromMessage is the CloudEvent that a Pub/Sub message carries: in the binding's structured mode (a content-type of
// application/cloudevents+json), in its binary mode, or in binary mode without the prefix, which is how people type
// attributes by hand. An id or source that is missing is the message's own, since the message is then all there is to tell the
// event by. A message that carries no CloudEvent at all gives false; one that claims to and does not gives an error.
func FromMessage(m Message, topic string) (event ce.Event, carried bool, err error) {
	attributes := map[string]string{}
	for k, v := range m.Attributes {
		attributes[strings.ToLower(k)] = v
	}
	if mediaType, _, err := mime.ParseMediaType(attributes[attributeContentType]); err == nil && mediaType == ce.ApplicationCloudEventsJSON {
		if err := json.Unmarshal(m.Data, &event); err != nil {
			return ce.Event{}, true, fmt.Errorf("reading a structured CloudEvent from message %s, %w", m.ID, err)
		}
		return event, true, nil
	}
	prefix, carried := attributesPrefix(attributes)
	if !carried {
		return ce.Event{}, false, nil
	}
	event, err = fromAttributes(attributes, prefix, m, topic)
	return event, true, err
}

// attributesPrefix tells whether attributes are those of a CloudEvent. Without a prefix they must say so clearly, since
// "id" and "type" are words that anybody may use for something else.
func attributesPrefix(attributes map[string]string) (prefix string, carried bool) {
	if attributes[attributePrefix+"type"] != "" || attributes[attributePrefix+"specversion"] != "" {
		return attributePrefix, true
	}
	if attributes["specversion"] != "" || strings.HasPrefix(attributes["type"], "convoke.") {
		return "", true
	}
	return "", false
}

func fromAttributes(attributes map[string]string, prefix string, m Message, topic string) (ce.Event, error) {
	event := ce.New()
	if v := attributes[prefix+"specversion"]; v != "" {
		if v != ce.CloudEventsVersionV1 && v != ce.CloudEventsVersionV03 {
			return ce.Event{}, fmt.Errorf("reading a CloudEvent from message %s, its version %q is not known", m.ID, clip(v))
		}
		event.SetSpecVersion(v)
	}
	event.SetID(or(attributes[prefix+"id"], m.ID))
	event.SetType(attributes[prefix+"type"])
	event.SetSource(or(attributes[prefix+"source"], topic))
	if s := attributes[prefix+"subject"]; s != "" {
		event.SetSubject(s)
	}
	event.SetTime(m.Published)
	if v := attributes[prefix+"time"]; v != "" {
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return ce.Event{}, fmt.Errorf("reading a CloudEvent from message %s, its time %q is none", m.ID, clip(v))
		}
		event.SetTime(t)
	}
	event.SetDataContentType(or(attributes[attributeContentType], or(attributes[prefix+"datacontenttype"], ce.ApplicationJSON)))
	event.DataEncoded = m.Data
	if err := event.Validate(); err != nil {
		return ce.Event{}, fmt.Errorf("reading a CloudEvent from message %s, %w", m.ID, err)
	}
	return event, nil
}

func or(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}
