package models

// Instant is microseconds since 1970-01-01T00:00:00Z, the finest that both stores keep. It is always the store's clock.
type Instant int64

// Seconds is a length of time in whole seconds.
type Seconds int64

// Add returns the instant s seconds later.
func (t Instant) Add(s Seconds) Instant { return t + Instant(s)*1_000_000 }

// Until returns the whole seconds from t to u, rounded down, and 0 when u is not after t.
func (t Instant) Until(u Instant) Seconds {
	if u <= t {
		return 0
	}
	return Seconds((u - t) / 1_000_000)
}
