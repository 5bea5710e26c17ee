package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/convoke-hpc/convoke/events"
)

// TypeMessagePublished is the type of the CloudEvent that Eventarc makes of a Pub/Sub message.
const TypeMessagePublished = "google.cloud.pubsub.topic.v1.messagePublished"

const (
	headerMessageID    = "X-Goog-Pubsub-Message-Id"
	headerSubscription = "X-Goog-Pubsub-Subscription-Name"
	headerPublished    = "X-Goog-Pubsub-Publish-Time"
	headerOrderingKey  = "X-Goog-Pubsub-Ordering-Key"
)

// read makes out the form of a delivery and takes it apart. An error says that it cannot be read, ever.
func read(header http.Header, body []byte) (*Delivery, error) {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		mediaType = "" // raw messages have none, or any
	}
	switch {
	case mediaType == ce.ApplicationCloudEventsBatchJSON:
		return nil, fmt.Errorf("the request holds a batch of CloudEvents: send them one by one")
	case strings.HasPrefix(mediaType, "application/cloudevents"):
		return readEvent(Structured, header, body)
	case header.Get("Ce-Specversion") != "" || header.Get("Ce-Type") != "":
		return readEvent(Binary, header, body)
	}
	if e, ok := readEnvelope(body); ok {
		return e.delivery(Wrapped, "")
	}
	return readUnwrapped(header, body)
}

func readEvent(form Form, header http.Header, body []byte) (*Delivery, error) {
	header = header.Clone()
	delete(header, "Ce-") // the prefix and nothing behind it, which the SDK would index into
	request := &http.Request{Header: header, Body: io.NopCloser(bytes.NewReader(body))}
	event, err := cehttp.NewEventFromHTTPRequest(request)
	if err != nil {
		return nil, fmt.Errorf("reading a %s CloudEvent, %w", form, err)
	}
	if err := event.Validate(); err != nil {
		return nil, fmt.Errorf("reading a %s CloudEvent, %w", form, err)
	}
	if event.Type() != TypeMessagePublished {
		return &Delivery{Form: form, Event: event}, nil
	}
	e, ok := readEnvelope(event.Data())
	if !ok {
		return nil, fmt.Errorf("reading a %s CloudEvent of type %s, its data is not a Pub/Sub message", form, TypeMessagePublished)
	}
	if e.Message.MessageID == "" && e.Message.MessageIDSnake == "" {
		e.Message.MessageID = event.ID() // Eventarc gives the event the message's id
	}
	return e.delivery(Published, event.Source())
}

// envelope is the body of a wrapped push. Pub/Sub writes both spellings of two of its fields.
type envelope struct {
	Subscription    string `json:"subscription"`
	DeliveryAttempt int    `json:"deliveryAttempt"`
	Message         *struct {
		Data             []byte            `json:"data"`
		Attributes       map[string]string `json:"attributes"`
		MessageID        string            `json:"messageId"`
		MessageIDSnake   string            `json:"message_id"`
		PublishTime      time.Time         `json:"publishTime"`
		PublishTimeSnake time.Time         `json:"publish_time"`
		OrderingKey      string            `json:"orderingKey"`
	} `json:"message"`
}

// readEnvelope reads an envelope, if the text is one.
func readEnvelope(body []byte) (envelope, bool) {
	var e envelope
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) || json.Unmarshal(body, &e) != nil || e.Message == nil {
		return envelope{}, false
	}
	m := e.Message
	return e, e.Subscription != "" || m.MessageID != "" || m.MessageIDSnake != "" || m.Data != nil
}

func (e envelope) delivery(form Form, source string) (*Delivery, error) {
	m := &events.Message{
		ID: e.Message.MessageID, Published: e.Message.PublishTime, Data: e.Message.Data,
		Attributes: e.Message.Attributes, OrderingKey: e.Message.OrderingKey,
	}
	if m.ID == "" {
		m.ID = e.Message.MessageIDSnake
	}
	if m.Published.IsZero() {
		m.Published = e.Message.PublishTimeSnake
	}
	return fromMessage(&Delivery{Form: form, Message: m, Subscription: e.Subscription, Attempt: e.DeliveryAttempt}, source)
}

// readUnwrapped takes the body for a message's data. Which of the headers were attributes cannot be told; whoever asks
// for an attribute knows its name.
func readUnwrapped(header http.Header, body []byte) (*Delivery, error) {
	m := &events.Message{ID: header.Get(headerMessageID), Data: body, OrderingKey: header.Get(headerOrderingKey)}
	if m.ID != "" {
		m.Attributes = map[string]string{}
		for k := range header {
			m.Attributes[strings.ToLower(k)] = header.Get(k)
		}
		if t, err := time.Parse(time.RFC3339Nano, header.Get(headerPublished)); err == nil {
			m.Published = t
		}
	}
	return fromMessage(&Delivery{Form: Unwrapped, Message: m, Subscription: header.Get(headerSubscription)}, "")
}

// fromMessage looks into the message for a CloudEvent.
func fromMessage(d *Delivery, source string) (*Delivery, error) {
	if source == "" {
		source = "//pubsub.googleapis.com/" + d.Subscription
	}
	event, carried, err := events.FromMessage(*d.Message, source)
	if err != nil {
		return nil, err
	}
	if carried {
		if err := event.Validate(); err != nil {
			return nil, fmt.Errorf("reading a CloudEvent from message %s, %w", d.Message.ID, err)
		}
		d.Event = &event
	}
	return d, nil
}
