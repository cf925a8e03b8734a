package models

// Format is the number of the row format that this build writes and reads.
const Format = 1

// MaxRows is the most rows a run's journal holds (design, The kernel). The last two are for a cancellation and the lapse of
// the claim before it, so that a run that is full can be ended.
const MaxRows = 100_000

// MaxRunBytes is the most bytes of content that workers and operators may upload for one run: 256 of the largest uploads, so
// that one worker does not fill the disk of all. What the server derives itself stands beside it.
const MaxRunBytes = 4 << 30

// MaxOpenCalls is the most calls of one response that may be open (design, The kernel).
const MaxOpenCalls = 128

// Row is one sealed event. The n rows of one accepted command stand together, i from 0; row 0 also carries the command's
// id, its name and text, and the sealed Env. Bytes are as stored and are hashed as stored (docs/FORMATS.md).
type Row struct {
	Format      int64
	Rules       int64
	Factory     string
	Run         string // empty in a factory's own journal
	Seq         int64  // from 1
	Cmd         int64  // accepted commands of this journal, from 1
	I, N        int64
	At          Instant
	Actor       string
	Kind        string
	Payload     []byte // canonical
	Blobs       []Digest
	CommandID   string
	CommandName string
	Command     []byte // canonical
	Env         []byte // canonical
	Prev        Digest
	Hash        Digest
}
