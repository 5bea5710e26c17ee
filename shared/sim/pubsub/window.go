package pubsub

import "time"

const (
	firstWindow = 4

	// After this many refusals without one success between them, the endpoint itself is taken to be ill.
	illAfter         = 10
	minimumPushPause = 100 * time.Millisecond
	// The real service pauses for up to a minute; on one machine somebody is waiting for the endpoint to come back.
	maximumPushPause = 10 * time.Second
)

// A window bounds how many pushes of one subscription are under way at once. It opens by one with every success, which
// doubles it with every round, and halves with every refusal. When nothing succeeds at all, it closes for a while.
type window struct {
	size   int
	most   int
	streak int       // refusals since the last success; those that come in during a pause are its cause, not news
	pause  time.Time // closed until then
}

func newWindow(most int) window {
	return window{size: min(firstWindow, most), most: most}
}

// open reports whether a push may begin while this many are under way.
func (w *window) open(now time.Time, underWay int) bool {
	return underWay < w.size && !w.pause.After(now)
}

func (w *window) success() {
	w.size = min(w.size+1, w.most)
	w.forgive()
}

// forgive forgets the refusals: something succeeded, or the endpoint is another one now.
func (w *window) forgive() {
	w.streak = 0
	w.pause = time.Time{}
}

// refusal reports whether the endpoint was found to be ill by this refusal.
func (w *window) refusal(now time.Time) bool {
	w.size = max(w.size/2, 1)
	if w.pause.After(now) {
		return false
	}
	w.streak++
	if w.streak < illAfter {
		return false
	}
	w.pause = now.Add(doubled(minimumPushPause, maximumPushPause, w.streak-illAfter))
	return w.streak == illAfter
}
