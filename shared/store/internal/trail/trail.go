// Package trail tells what became of a commit whose answer was lost. Each commit has an id of its own, and the
// cluster's document carries the id of the last commit of each of its latest epochs: reading it back, a holder finds
// its commit, or what stands in its place, even when others have held the cluster since.
//
// What may not live here: anything about how a document is kept.
package trail

// Mark is the last commit of one epoch. Taking the lease is an epoch's first commit.
type Mark struct {
	Epoch  int64  `json:"epoch" firestore:"epoch"`
	Commit string `json:"commit" firestore:"commit"`
}

// Trail is the marks of the latest epochs, oldest first.
type Trail []Mark

// length bounds a trail. A holder that asks after this many others have held the cluster gets no answer.
const length = 16

// With is the trail after a commit.
func (t Trail) With(m Mark) Trail {
	if n := len(t); n > 0 && t[n-1].Epoch == m.Epoch {
		t = t[:n-1]
	}
	t = t[max(0, len(t)-length+1):]
	return append(append(make(Trail, 0, len(t)+1), t...), m)
}

// Last is the newest mark; zero when there is none.
func (t Trail) Last() Mark {
	if len(t) == 0 {
		return Mark{}
	}
	return t[len(t)-1]
}

// Fate is what became of a commit.
type Fate int

// The fates of a commit.
const (
	Forgotten Fate = iota // too long ago: nobody can say
	Applied               // it stands, or stood until its epoch ended
	Pending               // what it was to follow is still the last commit: it was not applied, or not yet
	Lost                  // another commit came in its place: it was not applied and never will be
)

// Fate says what became of a commit that was to follow another: of its own epoch, or of an earlier one if it was to
// begin an epoch. Both must be of the document that the trail is of, not of one that was there before it.
//
// What follows a commit is conditioned on it, and nobody but its own holder could do that before it has its answer. So
// another commit of the same epoch has taken its place, and has not come after it.
func (t Trail) Fate(before, commit Mark) Fate {
	if t.Last() == before {
		return Pending
	}
	for _, m := range t {
		switch {
		case m == commit:
			return Applied
		case m.Epoch == commit.Epoch:
			return Lost
		}
	}
	if t.Last().Epoch < commit.Epoch {
		return Lost // the epoch that it was to end has gone on
	}
	return Forgotten
}
