package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// How the bytes of a blob are stored. The digest is over them as received, so a reader checks what comes out.
const (
	storedPlain = "none"
	storedZstd  = "zstd" // the length as received, 8 bytes big-endian, then one frame
)

const (
	minPacked = 256      // below it a frame's own bytes are what is saved
	maxPlain  = 64 << 20 // of one blob when read: four times what the API takes
)

// plainBytes is how long a stored blob was when it came in.
const plainBytes = `CASE encoding WHEN '` + storedPlain + `' THEN octet_length(data)
	ELSE ('x' || encode(substring(data FOR 8), 'hex'))::bit(64)::bigint END`

// Encoder and decoder are safe for many at once, and keep buffers for as many as there are processors.
var (
	encoder = sync.OnceValues(func() (*zstd.Encoder, error) { return zstd.NewWriter(nil, zstd.WithLowerEncoderMem(true)) })
	decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPlain), zstd.WithDecoderLowmem(true))
	})
)

// pack makes bytes smaller, where that saves at least an eighth.
func pack(plain []byte) (encoding string, stored []byte, err error) {
	if len(plain) < minPacked {
		return storedPlain, whole(plain), nil
	}
	e, err := encoder()
	if err != nil {
		return "", nil, err
	}
	out := binary.BigEndian.AppendUint64(make([]byte, 0, len(plain)/3+64), uint64(len(plain)))
	out = e.EncodeAll(plain, out)
	if len(out) > len(plain)-len(plain)/8 {
		return storedPlain, plain, nil
	}
	return storedZstd, out, nil
}

var errPacked = errors.New("the stored bytes are not what was written")

// unpack is the inverse of pack.
func unpack(encoding string, stored []byte) ([]byte, error) {
	switch encoding {
	case storedPlain:
		return stored, nil
	case storedZstd:
	default:
		return nil, fmt.Errorf("encoding %q needs a newer build", encoding)
	}
	if len(stored) < 8 {
		return nil, errPacked
	}
	size := binary.BigEndian.Uint64(stored)
	if size > math.MaxInt64 || size > maxPlain {
		return nil, errPacked
	}
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	plain, err := d.DecodeAll(stored[8:], make([]byte, 0, size))
	if err != nil || uint64(len(plain)) != size {
		return nil, fmt.Errorf("%w: %w", errPacked, err)
	}
	return plain, nil
}
