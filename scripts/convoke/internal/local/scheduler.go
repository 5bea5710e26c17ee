package local

import (
	"context"
	"log/slog"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/convoke-hpc/convoke/events"
)

// schedule ticks as the deployment's Cloud Scheduler job does, until the context ends. A tick that cannot be published is
// skipped, as there: the next one does its work.
func schedule(ctx context.Context, publisher *pubsub.Publisher, project string, every time.Duration, log *slog.Logger) {
	attributes := map[string]string{
		"ce-specversion": "1.0",
		"ce-type":        events.TypeTick,
		"ce-source":      "//cloudscheduler.googleapis.com/projects/" + project + "/locations/local/jobs/convoke-tick",
		"content-type":   "application/json",
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := publish(ctx, publisher, []byte("{}"), attributes); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "a tick is skipped", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
