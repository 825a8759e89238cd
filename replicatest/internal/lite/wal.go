package lite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// page is a page of a database as a transaction has left it.
type page struct {
	number uint32
	data   []byte
}

// The layout of a write-ahead log: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
const (
	walHeader   = 32
	frameHeader = 24

	walMagic = 0x377f0682 // with the lowest bit: checksums of big-endian words
)

var errRestarted = errors.New("the write-ahead log was begun anew by somebody else, so that transactions may have been missed")

// walReader reads committed transactions from a write-ahead log, each once. It trusts nothing but checksums, as the recovery of
// SQLite does: what is behind the last commit may be half written, or be written over.
type walReader struct {
	path string
	file *os.File

	header   [walHeader]byte // as it was read; zero before
	pageSize int
	order    binary.ByteOrder
	offset   int64     // behind the last frame of a transaction that was read
	sum      [2]uint32 // the checksum up to there
	frames   int64     // up to there
	// checkpointed is how many frames are in the database as well. When these are all, the log may begin anew.
	checkpointed int64
}

// close closes the file.
func (r *walReader) close() {
	if r.file != nil {
		_ = r.file.Close() // it was only read
		r.file = nil
	}
}

// read calls emit for each transaction that was committed since the last call. The pages are emit's to keep.
func (r *walReader) read(emit func(pages []page, size uint32)) error {
	if r.file == nil {
		file, err := os.Open(r.path)
		if errors.Is(err, os.ErrNotExist) {
			return nil // nothing was written yet
		}
		if err != nil {
			return err
		}
		r.file = file
	}
	var header [walHeader]byte
	if _, err := r.file.ReadAt(header[:], 0); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	if r.pageSize == 0 || header != r.header {
		next := binary.BigEndian.Uint32(r.header[12:]) + 1
		if r.pageSize != 0 && (r.frames != r.checkpointed || binary.BigEndian.Uint32(header[12:]) != next) {
			return errRestarted
		}
		if err := r.begin(header); err != nil {
			return err
		}
	}
	return r.transactions(emit)
}

// begin takes in the header of a log that nothing was read of.
func (r *walReader) begin(header [walHeader]byte) error {
	magic := binary.BigEndian.Uint32(header[:])
	if magic&^1 != walMagic {
		return fmt.Errorf("%s is no write-ahead log", r.path)
	}
	r.order = binary.LittleEndian
	if magic&1 != 0 {
		r.order = binary.BigEndian
	}
	pageSize := binary.BigEndian.Uint32(header[8:])
	if pageSize < 512 || pageSize > 65536 || pageSize&(pageSize-1) != 0 {
		return fmt.Errorf("%s has pages of %d bytes", r.path, pageSize)
	}
	r.header, r.pageSize = header, int(pageSize)
	r.sum = r.checksum([2]uint32{}, header[:24])
	r.offset, r.frames, r.checkpointed = walHeader, 0, 0
	return nil
}

func (r *walReader) transactions(emit func(pages []page, size uint32)) error {
	offset, sum := r.offset, r.sum
	var pages []page
	frames := r.frames
	for {
		frame := make([]byte, frameHeader+r.pageSize)
		if _, err := r.file.ReadAt(frame, offset); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		sum = r.checksum(r.checksum(sum, frame[:8]), frame[frameHeader:])
		if string(frame[8:16]) != string(r.header[16:24]) || binary.BigEndian.Uint32(frame[16:]) != sum[0] || binary.BigEndian.Uint32(frame[20:]) != sum[1] {
			return nil
		}
		offset += int64(len(frame))
		frames++
		pages = append(pages, page{binary.BigEndian.Uint32(frame), frame[frameHeader:]})
		if size := binary.BigEndian.Uint32(frame[4:]); size != 0 {
			emit(pages, size)
			pages = nil
			r.offset, r.sum, r.frames = offset, sum, frames
		}
	}
}

// checksum goes on with a checksum over b, whose length is a multiple of eight.
func (r *walReader) checksum(sum [2]uint32, b []byte) [2]uint32 {
	for ; len(b) >= 8; b = b[8:] {
		sum[0] += r.order.Uint32(b) + sum[1]
		sum[1] += r.order.Uint32(b[4:]) + sum[0]
	}
	return sum
}
