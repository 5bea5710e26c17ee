package pubsub

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// BenchmarkBacklog works off 15,000 messages of 500 bytes with a fast handler, and reports messages a second.
func BenchmarkBacklog(b *testing.B) {
	fast := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	for _, durable := range []bool{false, true} {
		for _, network := range []bool{false, true} {
			name := map[bool]string{false: "memory", true: "file"}[durable] + "/" + map[bool]string{false: "handler", true: "network"}[network]
			b.Run(name, func(b *testing.B) {
				o := Options{Handlers: map[string]http.Handler{"h": fast}}
				if durable {
					o.File = filepath.Join(b.TempDir(), "pubsub.db")
				}
				endpoint := "http://h/"
				if network {
					server := httptest.NewServer(fast)
					defer server.Close()
					endpoint = server.URL
				}
				workOff(b, o, endpoint)
			})
		}
	}
}

func workOff(b *testing.B, o Options, endpoint string) {
	const backlog, batch = 15_000, 500
	broker := start(b, o)
	c := connect(b, broker)
	createTopic(b, c, topicName)
	subscribe(b, c, &pubsubpb.Subscription{Name: subName, Topic: topicName})
	turn := func(config *pubsubpb.PushConfig) {
		err := c.SubscriptionAdminClient.ModifyPushConfig(b.Context(), &pubsubpb.ModifyPushConfigRequest{Subscription: subName, PushConfig: config})
		if err != nil {
			b.Fatal(err)
		}
	}
	data := bytes.Repeat([]byte("x"), 500)
	for b.Loop() {
		b.StopTimer()
		turn(nil)
		for range backlog / batch {
			req := &pubsubpb.PublishRequest{Topic: topicName}
			for range batch {
				req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: data})
			}
			if _, err := c.TopicAdminClient.Publish(b.Context(), req); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		turn(pushTo(endpoint))
		idle(b, broker)
	}
	b.ReportMetric(float64(backlog)*float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkPublish measures publishers that each wait for their message to be on disk.
func BenchmarkPublish(b *testing.B) {
	broker := start(b, Options{File: filepath.Join(b.TempDir(), "pubsub.db")})
	c := connect(b, broker)
	createTopic(b, c, topicName)
	subscribe(b, c, &pubsubpb.Subscription{Name: subName, Topic: topicName})
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := c.TopicAdminClient.Publish(b.Context(), &pubsubpb.PublishRequest{
				Topic: topicName, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}},
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}
