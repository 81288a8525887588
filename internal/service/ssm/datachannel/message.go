package datachannel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// The kinds of payload. https://github.com/aws/session-manager-plugin/blob/mainline/src/message/clientmessage.go
const (
	Output            uint32 = 1
	Size              uint32 = 3
	HandshakeRequest  uint32 = 5
	HandshakeResponse uint32 = 6
	HandshakeComplete uint32 = 7
	// The client proves that it has the keys of an encrypted session.
	EncChallengeRequest  uint32 = 8
	EncChallengeResponse uint32 = 9

	Flag   uint32 = 10
	StdErr uint32 = 11
)

// The flags of port sessions.
const (
	DisconnectToPort   uint32 = 1
	TerminateSession   uint32 = 2
	ConnectToPortError uint32 = 3
)

// The types of messages.
const (
	typeInput  = "input_stream_data"
	typeOutput = "output_stream_data"
	typeAck    = "acknowledge"
	typeClosed = "channel_closed"
)

// Frames are laid out as in the plugin's messageparser.go. The header's length does not include the field with the
// payload's length.
const (
	headerLength  = 116
	payloadOffset = headerLength + 4
	typeLength    = 32
)

// A message is one frame of the data channel.
type message struct {
	kind     string
	sequence int64
	flags    uint64
	id       uuid.UUID
	payload  uint32 // the kind of payload
	data     []byte
}

var errFrame = errors.New("not a frame of the data channel")

func parse(b []byte) (message, error) {
	if len(b) < payloadOffset || binary.BigEndian.Uint32(b) != headerLength {
		return message{}, errFrame
	}
	m := message{
		kind:     strings.TrimRight(string(b[4:4+typeLength]), " \x00"),
		sequence: int64(binary.BigEndian.Uint64(b[48:])), //nolint:gosec // checked by the caller
		flags:    binary.BigEndian.Uint64(b[56:]),
		payload:  binary.BigEndian.Uint32(b[112:]),
		data:     b[payloadOffset:],
	}
	copy(m.id[8:], b[64:72]) // the less significant half comes first
	copy(m.id[:8], b[72:80])
	if n := binary.BigEndian.Uint32(b[headerLength:]); int64(n) != int64(len(m.data)) {
		return m, fmt.Errorf("%w: a payload of %d bytes says it has %d", errFrame, len(m.data), n)
	}
	// Acknowledgements carry no digest.
	if digest := sha256.Sum256(m.data); m.kind != typeAck && !bytes.Equal(digest[:], b[80:112]) {
		return m, fmt.Errorf("%w: the payload's digest is wrong", errFrame)
	}
	return m, nil
}

func (m *message) bytes() []byte {
	b := make([]byte, payloadOffset, payloadOffset+len(m.data))
	binary.BigEndian.PutUint32(b, headerLength)
	copy(b[4:4+typeLength], m.kind+strings.Repeat(" ", typeLength))
	binary.BigEndian.PutUint32(b[36:], 1)
	binary.BigEndian.PutUint64(b[40:], uint64(wall.Now().UnixMilli())) //nolint:gosec // after 1970
	binary.BigEndian.PutUint64(b[48:], uint64(m.sequence))             //nolint:gosec // never negative
	binary.BigEndian.PutUint64(b[56:], m.flags)
	copy(b[64:72], m.id[8:])
	copy(b[72:80], m.id[:8])
	digest := sha256.Sum256(m.data)
	copy(b[80:], digest[:])
	binary.BigEndian.PutUint32(b[112:], m.payload)
	binary.BigEndian.PutUint32(b[headerLength:], uint32(len(m.data))) //nolint:gosec // a kilobyte
	return append(b, m.data...)
}
