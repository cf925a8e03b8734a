package engine

import (
	"context"
	"errors"

	"github.com/forge-continuity/forge/models"
)

// Conditions that a store reports; each adapter turns its library's errors into these in one function.
var (
	// ErrNotFound: no such factory, run, row, blob, receipt or token.
	ErrNotFound = errors.New("not found")
	// ErrTaken: a once-only key, row number or receipt id was written by somebody else. Nothing of the write stands.
	ErrTaken = errors.New("already taken")
	// ErrFull: the content of the run would be more than it may be. Nothing of the write stands.
	ErrFull = errors.New("content is at its bound")
	// ErrUnavailable: the store cannot answer now (connection, serialization, time limit). Whether a write landed is
	// unknown; reading the receipt tells.
	ErrUnavailable = errors.New("store unavailable")
)

// Spaces of ids that have a receipt. Run is empty in the key where ids are unique per factory.
const (
	SpaceFactory = "factory" // commands of a factory's own journal
	SpaceRun     = "run"     // registrations, per factory
	SpaceCommand = "command" // batches and other native commands, per run
	SpaceServer  = "server"  // the server's own, per run
	SpaceClaim   = "claim"   // claims, per run
	SpaceRequest = "request" // continuity requests, per factory

	SpaceRecovery = "recovery" // recoveries of all three workflows, per factory
)

// Key names a receipt.
type Key struct {
	Factory string
	Space   string
	Run     string // empty for the spaces that are per factory
	ID      string
}

// Receipt is the saved answer to an accepted command. Digest is models.CommandDigest; Body is canonical JSON.
type Receipt struct {
	Key    Key
	Run    string // the run it belongs to, also where Key.Run is empty
	Digest models.Digest
	Actor  string
	Body   []byte
}

// Locks says what one append locks, always in this order: the factory's row (shared unless Exclusive), the run's row, the
// factory's queue row. All locks are held to the end of the transaction.
type Locks struct {
	Factory   string
	Exclusive bool   // a command of the factory's own journal; the factory need not exist yet
	Run       string // empty for those
	Queue     bool   // the count of pending tickets is read and may grow
	Receipt   Key    // whose receipt to load
	Blobs     []models.Digest
}

// Loaded is what stood after the locks were taken. Now is the store's clock, read after them.
type Loaded struct {
	Now     models.Instant
	Factory Cached
	Run     Cached
	Salt    [32]byte        // of the run
	Opener  string          // principal that opened the run
	Lease   models.Instant  // expiry in force of the run's lease row, 0 for none
	Saved   *Receipt        // for Locks.Receipt, nil for none
	Missing []models.Digest // of Locks.Blobs, those not kept, in the order asked
	Pending int64           // tickets queued, unclaimed and not past their lease at Now; only with Locks.Queue
	Newest  models.Instant  // time of the newest row of any run of the factory, 0 for none; only with Locks.Exclusive

	// Rows reads rows of the run with from <= seq < from+limit in order, inside the same transaction.
	Rows func(from, limit int64) ([]models.Row, error)
}

// Cached is a journal's head and the state folded up to it. The zero value is a journal without rows.
type Cached struct {
	Head  models.Head
	At    models.Instant // of the head row
	Rules int64
	State []byte // canonical JSON, nil before the first row
}

// Blob is content under the digest that names it.
type Blob struct {
	Digest models.Digest
	Data   []byte
}

// Once is a fact that may be written once: the store has it as a unique key (factory, run, kind, key).
type Once struct {
	Kind string
	Key  string
}

// QueueEntry announces a run. Request is empty for ordinary work, Pool where any worker may take it. Expires is 0 where
// nothing lapses.
type QueueEntry struct {
	Run     string
	Request string
	Expires models.Instant
	Pool    string
}

// Waiting is a run with an outstanding ticket.
type Waiting struct {
	Run     string
	Request string
}

// Write is everything that one accepted command changes; it becomes durable whole or not at all. Rows are contiguous from
// the loaded head. Queue nil removes the run's entry. Lease is the expiry that stands from now on, 0 for none. Reclaim is
// until when, once that lease has lapsed, an ordinary claim may go on from here: such a run is announced without an entry
// and without a person; 0 for no such claim. Outstanding is the request id of an outstanding ticket, empty for none. Verify
// says that automatic verification is to enter the run. These five replace what stood, also in a write without rows. A write without rows that has a State replaces the cached one, of a
// factory too. Gone is a principal whose tokens are revoked with the write, empty for none.
type Write struct {
	Rows        []models.Row
	State       []byte
	Rules       int64
	Receipt     Receipt
	Queue       *QueueEntry
	Lease       models.Instant
	Reclaim     models.Instant
	Outstanding string
	Verify      bool
	Once        []Once
	Blobs       []Blob
	Gone        string
}

// RunInfo is a run as opened: it has a salt, and rows only once it is registered.
type RunInfo struct {
	Run    string
	Salt   [32]byte
	Opener string
	Cached Cached
	Lease  models.Instant
}

// Standing is a run beside its factory, at Now.
type Standing struct {
	Factory Cached
	Run     RunInfo
	Now     models.Instant
}

// Token is a stored credential; Hash is the tagged digest of the secret, which is never stored.
type Token struct {
	Hash      models.Digest
	ID        string
	Factory   string
	Principal string
	ExpiresAt models.Instant // 0: never
	Revoked   bool
}

// Presented is a token beside its factory, at Now. The factory is the zero value where it has no row yet.
type Presented struct {
	Token   Token
	Factory Cached
	Now     models.Instant
}

// Journal is the append-only side of the store.
type Journal interface {
	// Append locks, loads and calls decide inside one transaction, then commits what it returned. decide may return nil
	// (nothing to write: the transaction ends without a change) or an error, which Append returns as it is after rolling
	// back. decide may be called again when the database asked for a retry, so it must be pure. The error is ErrNotFound
	// when the factory (unless Exclusive) or the run does not exist, ErrTaken, ErrUnavailable, or decide's own.
	Append(ctx context.Context, locks Locks, decide func(Loaded) (*Write, error)) error
	// Factory returns a factory's cached head and state, without locks.
	Factory(ctx context.Context, factory string) (Cached, error)
	// Run returns a run, without locks.
	Run(ctx context.Context, factory, run string) (RunInfo, error)
	// Stand returns a factory, a run of it and then the clock, without locks, as Factory, Run and Now would, in one trip. Factory and
	// run are as they stood at one moment, so no row of the run names one of the factory that is not there.
	Stand(ctx context.Context, factory, run string) (Standing, error)
	// OpenRun makes the run with this salt and opener, or answers the one that exists.
	OpenRun(ctx context.Context, factory, run, opener string, salt [32]byte) (RunInfo, error)
	// Rows returns rows with from <= seq < from+limit in order; run is empty for the factory's own journal.
	Rows(ctx context.Context, factory, run string, from, limit int64) ([]models.Row, error)
	// Factories returns the ids of factories after the one named, in order, at most limit.
	Factories(ctx context.Context, after string, limit int64) ([]string, error)
	// Runs returns the ids of runs after the one named, in order, at most limit.
	Runs(ctx context.Context, factory, after string, limit int64) ([]string, error)
	// Outstanding returns the runs after the one named that have an outstanding ticket, in order of ids, at most limit.
	Outstanding(ctx context.Context, factory, after string, limit int64) ([]Waiting, error)
	// Verifiable returns the runs after the one named that automatic verification is to enter, in order, at most limit.
	Verifiable(ctx context.Context, factory, after string, limit int64) ([]string, error)
	// Receipt returns a saved answer.
	Receipt(ctx context.Context, key Key) (Receipt, error)
	// Work returns what may be claimed now by workers of the pool, oldest first, at most limit: queued entries of that pool
	// or of none that have not lapsed, and runs whose lease has lapsed where Write.Reclaim lets an ordinary claim go on.
	Work(ctx context.Context, factory, pool string, limit int64) ([]QueueEntry, error)
	// Pending counts like Loaded.Pending, without locks.
	Pending(ctx context.Context, factory string) (int64, error)
	// Now reads the store's clock.
	Now(ctx context.Context) (models.Instant, error)
	// Kind returns the store's name in profiles and its major version, such as "postgres", 15.
	Kind() (name string, major int64)
}

// Blobs keeps content per run; run is empty for a factory's own blobs. Putting the same bytes twice is one blob.
type Blobs interface {
	// PutBlob is ErrFull where the bytes kept for the run, those that a Write brought included, would come to more than limit.
	// Content that is kept already is taken all the same, and so is what a Write brings. Without a run no limit is looked at.
	PutBlob(ctx context.Context, factory, run string, b Blob, limit int64) error
	Blob(ctx context.Context, factory, run string, digest models.Digest) ([]byte, error)
	// Sweep removes the blobs of the factory's runs that no row names and that were last put longer ago than age, by the
	// store's clock, and returns how many. No row can come to name a blob that is removed: it holds the run's lock.
	Sweep(ctx context.Context, factory string, age models.Seconds) (int64, error)
}

// Credentials keeps tokens and the names of principals and factories, which are labels and stand in no journal.
type Credentials interface {
	PutToken(ctx context.Context, t Token) error
	// Token returns what a secret's hash stands for, its factory as it stands, then the clock, in one trip.
	Token(ctx context.Context, hash models.Digest) (Presented, error)
	RevokeToken(ctx context.Context, factory, id string) error
	PutName(ctx context.Context, factory, principal, name string) error
	Name(ctx context.Context, factory, principal string) (string, error)
}

// Modules keeps every guest module that was used, by the SHA-256 of its uncompressed bytes.
type Modules interface {
	PutModule(ctx context.Context, digest models.Digest, data []byte) error
	Module(ctx context.Context, digest models.Digest) ([]byte, error)
	// ListModules lists what is kept, by digest. Bytes is the size of each.
	ListModules(ctx context.Context) ([]KeptModule, error)
}

// KeptModule is a guest module that a store keeps.
type KeptModule struct {
	Digest models.Digest
	Bytes  int64
}

// Announcer is a store that tells when work appears, on whatever node; a store without it is looked at more often.
type Announcer interface {
	// Announced returns a channel that has a value once an entry appeared in the factory's queue after the call. It may have
	// one without an entry, and an entry may come without it where the connection to the database was lost. stop ends it.
	Announced(factory string) (news <-chan struct{}, stop func())
}

// Store is all of it, as the two adapters implement it.
type Store interface {
	Journal
	Blobs
	Credentials
	Modules
	Close() error
}
