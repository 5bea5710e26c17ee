package pubsub

import (
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

const (
	// The real service's defaults of a retry policy that leaves a field out.
	defaultMinimumBackoff = 10 * time.Second
	defaultMaximumBackoff = 10 * time.Minute

	// Without a retry policy a refused push comes again "as soon as possible": the real service's push back-off begins
	// at 100 ms and ends at 60 s.
	promptMinimumBackoff = 100 * time.Millisecond
	promptMaximumBackoff = time.Minute
)

// backoff says how long a message that has now been refused this many times (1 or more) rests. It doubles from the
// minimum to the maximum of the policy. Without a policy, a pulled message is available again at once.
func backoff(policy *pubsubpb.RetryPolicy, refusals int, push bool) time.Duration {
	least, most := promptMinimumBackoff, promptMaximumBackoff
	switch {
	case policy != nil:
		least, most = defaultMinimumBackoff, defaultMaximumBackoff
		if policy.MinimumBackoff != nil {
			least = policy.MinimumBackoff.AsDuration()
		}
		if policy.MaximumBackoff != nil {
			most = policy.MaximumBackoff.AsDuration()
		}
	case !push:
		return 0
	}
	return doubled(least, most, refusals-1)
}

// doubled is least doubled n times, and at most most.
func doubled(least, most time.Duration, n int) time.Duration {
	delay := least
	for ; n > 0 && delay > 0 && delay < most; n-- {
		delay *= 2
	}
	return min(delay, most)
}
