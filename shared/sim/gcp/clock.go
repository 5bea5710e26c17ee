package gcp

import "time"

// Clock is where the simulator gets its time from. It asks for the time at
// every request and keeps one timer armed for the next thing that is due, so a
// clock that jumps (a test's own, or the virtual one of testing/synctest) is
// enough to make hours pass.
type Clock interface {
	// Now is the simulated time.
	Now() time.Time
	// AfterFunc calls f in its own goroutine once d of simulated time has
	// passed. Stopping the timer that it returns prevents a call that has not
	// begun.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending call of [Clock.AfterFunc].
type Timer interface {
	Stop() bool
}

// RealTime is package time as it is: real time, or virtual time inside a
// testing/synctest bubble.
func RealTime() Clock { return packageTime{} }

type packageTime struct{}

func (packageTime) Now() time.Time { return time.Now() }

func (packageTime) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// ScaledTime runs factor times faster than package time, from now on: with
// factor 60, a ten-minute wait takes ten seconds. It panics if factor is not
// positive.
func ScaledTime(factor float64) Clock {
	if factor <= 0 {
		panic("gcp: time must go forward: the factor of ScaledTime must be positive")
	}
	return scaledTime{start: time.Now(), factor: factor}
}

type scaledTime struct {
	start  time.Time
	factor float64
}

func (c scaledTime) Now() time.Time {
	return c.start.Add(time.Duration(float64(time.Since(c.start)) * c.factor))
}

func (c scaledTime) AfterFunc(d time.Duration, f func()) Timer {
	return time.AfterFunc(time.Duration(float64(d)/c.factor), f)
}
