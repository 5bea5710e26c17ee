package local

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// pubsubRoutes serve as much of Pub/Sub's REST API as gcloud needs to publish, to list, and to read dead letters. (Google's client
// libraries speak gRPC, for which the broker is there.)
func pubsubRoutes(mux *http.ServeMux, client *pubsub.Client) {
	topics, subscriptions := client.TopicAdminClient, client.SubscriptionAdminClient
	method := func(pattern string, do func(*http.Request, []byte) (proto.Message, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				refuse(w, status.Errorf(codes.InvalidArgument, "the request cannot be read: %v", err))
				return
			}
			answer, err := do(r, body)
			if err != nil {
				refuse(w, err)
				return
			}
			text, err := protojson.Marshal(answer)
			if err != nil {
				refuse(w, err)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text) // a client that has gone hears nothing
		})
	}
	const project = "/v1/projects/{project}"
	method("POST "+project+"/topics/{topic}", func(r *http.Request, body []byte) (proto.Message, error) {
		topic, err := verb(r.PathValue("topic"), "publish")
		in := &pubsubpb.PublishRequest{}
		if err := decode(body, in, err); err != nil {
			return nil, err
		}
		in.Topic = topicName(r.PathValue("project"), topic)
		return topics.Publish(r.Context(), in)
	})
	method("GET "+project+"/topics", func(r *http.Request, _ []byte) (proto.Message, error) {
		out := &pubsubpb.ListTopicsResponse{}
		for t, err := range topics.ListTopics(r.Context(), &pubsubpb.ListTopicsRequest{Project: "projects/" + r.PathValue("project")}).All() {
			if err != nil {
				return nil, err
			}
			out.Topics = append(out.Topics, t)
		}
		return out, nil
	})
	method("GET "+project+"/subscriptions", func(r *http.Request, _ []byte) (proto.Message, error) {
		out := &pubsubpb.ListSubscriptionsResponse{}
		for s, err := range subscriptions.ListSubscriptions(r.Context(), &pubsubpb.ListSubscriptionsRequest{Project: "projects/" + r.PathValue("project")}).All() {
			if err != nil {
				return nil, err
			}
			out.Subscriptions = append(out.Subscriptions, s)
		}
		return out, nil
	})
	method("POST "+project+"/subscriptions/{subscription}", func(r *http.Request, body []byte) (proto.Message, error) {
		id, _, _ := strings.Cut(r.PathValue("subscription"), ":")
		name := subscriptionName(r.PathValue("project"), id)
		switch r.PathValue("subscription") {
		case id + ":pull":
			in := &pubsubpb.PullRequest{}
			if err := decode(body, in, nil); err != nil {
				return nil, err
			}
			in.Subscription, in.ReturnImmediately = name, true //nolint:staticcheck // gcloud waits for the answer
			return subscriptions.Pull(r.Context(), in)
		case id + ":acknowledge":
			in := &pubsubpb.AcknowledgeRequest{}
			if err := decode(body, in, nil); err != nil {
				return nil, err
			}
			in.Subscription = name
			return &emptypb.Empty{}, subscriptions.Acknowledge(r.Context(), in)
		}
		_, err := verb(r.PathValue("subscription"), "pull")
		return nil, err
	})
}

// maxBody is the largest request: 10 MB of messages, in base64, and what surrounds them.
const maxBody = 16 << 20

// verb is what stands before the verb in the last part of a path.
func verb(part, want string) (string, error) {
	id, ok := strings.CutSuffix(part, ":"+want)
	if !ok {
		return "", status.Errorf(codes.Unimplemented, "%q is not served here over REST; gRPC has all methods", part)
	}
	return id, nil
}

func decode(body []byte, into proto.Message, before error) error {
	if before != nil {
		return before
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, into); err != nil {
		return status.Errorf(codes.InvalidArgument, "the request cannot be read: %v", err)
	}
	return nil
}

// refuse answers as Google's REST APIs do.
func refuse(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	code, word := http.StatusInternalServerError, "INTERNAL"
	switch s.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition:
		code, word = http.StatusBadRequest, "INVALID_ARGUMENT"
	case codes.NotFound:
		code, word = http.StatusNotFound, "NOT_FOUND"
	case codes.Unimplemented:
		code, word = http.StatusNotImplemented, "UNIMPLEMENTED"
	case codes.Unavailable:
		code, word = http.StatusServiceUnavailable, "UNAVAILABLE"
	default:
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "status": word, "message": s.Message()}})
}
