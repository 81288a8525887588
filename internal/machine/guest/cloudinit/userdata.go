// Package cloudinit does on a machine what cloud-init does with user data: it splits a multipart message
// into its parts, applies cloud-config, and runs boothooks and scripts in cloud-init's order, once per instance, with
// cloud-init's words in /var/log/cloud-init-output.log.
//
// User data is not trusted: sizes, parts and nesting are bounded. The caller provides the means to run scripts
// (Host). May be imported by packages under internal/machine and internal/node.
package cloudinit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"strings"

	"github.com/drydock-dev/drydock/internal/gunzip"
)

// Limits on user data. EC2 allows 16 KiB before base64; the others bound what decompression, nesting and YAML's
// aliases may expand it to.
const (
	maxDecompressed = 1 << 20
	maxMerged       = 2 << 20 // cloud-config of all parts together, as JSON
	maxParts        = 64
	maxNesting      = 4
)

// The media types that cloud-init handles.
// https://cloudinit.readthedocs.io/en/latest/explanation/format.html
const (
	typeScript   = "text/x-shellscript"
	typeConfig   = "text/cloud-config"
	typeBoothook = "text/cloud-boothook"
	typeUpstart  = "text/upstart-job"
	typeInclude  = "text/x-include-url"
	typePlain    = "text/plain"
)

// A Part is one part of user data.
type Part struct {
	// Number counts from 1, in the order of the message. Scripts are named after it.
	Number   int
	Type     string
	Filename string // the part's file name: a safe base name, or empty
	Body     []byte
}

// Parse splits user data into parts. Content that cloud-init recognizes by its first line needs no MIME. Content that
// it does not recognize becomes one part of type text/plain, which cloud-init ignores.
func Parse(userData []byte) ([]Part, error) {
	p := &parser{left: maxDecompressed}
	if err := p.message(userData, 0); err != nil {
		return nil, err
	}
	return p.parts, nil
}

type parser struct {
	left  int
	parts []Part
}

// starts are the first lines by which cloud-init recognizes content without MIME.
var starts = []struct{ prefix, mediaType string }{
	{"#!", typeScript},
	{"#cloud-config", typeConfig},
	{"#cloud-boothook", typeBoothook},
	{"#include", typeInclude},
	{"#upstart-job", typeUpstart},
}

func sniff(data []byte) string {
	for _, s := range starts {
		if bytes.HasPrefix(data, []byte(s.prefix)) {
			return s.mediaType
		}
	}
	return ""
}

// spend counts decoded bytes against the limit.
func (p *parser) spend(n int) error {
	if p.left -= n; p.left < 0 {
		return fmt.Errorf("user data decompresses to more than %d bytes", maxDecompressed)
	}
	return nil
}

func (p *parser) gunzip(data []byte) ([]byte, error) {
	if !gunzip.Is(data) {
		return data, nil
	}
	out, err := gunzip.Bytes(data, p.left)
	if err != nil && !errors.Is(err, gunzip.ErrTooLarge) {
		return nil, fmt.Errorf("decompressing user data: %w", err)
	}
	return out, p.spend(len(out))
}

func (p *parser) message(data []byte, depth int) error {
	if depth > maxNesting {
		return errors.New("user data is nested too deeply")
	}
	// EC2 already decodes user data. People still encode it twice, and cloud-init undoes that.
	if decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(data))); err == nil && len(decoded) > 0 && sniff(decoded) != "" {
		data = decoded
	}
	data, err := p.gunzip(data)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if t := sniff(data); t != "" {
		return p.add(t, "", data)
	}
	msg, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return p.add(typePlain, "", data)
	}
	return p.entity(textproto.MIMEHeader(msg.Header), msg.Body, depth)
}

// entity reads a message or one part of it.
func (p *parser) entity(h textproto.MIMEHeader, body io.Reader, depth int) error {
	if depth > maxNesting {
		return errors.New("user data is nested too deeply")
	}
	mediaType, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		mediaType = typePlain
	}
	if strings.HasPrefix(mediaType, "multipart/") && params["boundary"] != "" {
		mr := multipart.NewReader(body, params["boundary"])
		for {
			part, err := mr.NextRawPart()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading part %d of multipart user data: %w", len(p.parts)+1, err)
			}
			if err := p.entity(part.Header, part, depth+1); err != nil {
				return err
			}
		}
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxDecompressed+1))
	if err != nil {
		return fmt.Errorf("reading user data: %w", err)
	}
	if err := p.spend(len(raw)); err != nil {
		return err
	}
	if strings.EqualFold(h.Get("Content-Transfer-Encoding"), "base64") {
		if raw, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(raw)), "")); err != nil {
			return fmt.Errorf("part %d of user data is not base64: %w", len(p.parts)+1, err)
		}
	}
	if raw, err = p.gunzip(raw); err != nil {
		return err
	}
	if t := sniff(raw); mediaType == typePlain && t != "" {
		mediaType = t
	}
	_, disposition, _ := mime.ParseMediaType(h.Get("Content-Disposition")) // a part need not have a name
	return p.add(mediaType, disposition["filename"], raw)
}

func (p *parser) add(mediaType, filename string, body []byte) error {
	if len(p.parts) >= maxParts {
		return fmt.Errorf("user data has more than %d parts", maxParts)
	}
	if strings.ContainsAny(filename, "/\x00") || len(filename) > 200 || filename == "." || filename == ".." {
		filename = ""
	}
	p.parts = append(p.parts, Part{Number: len(p.parts) + 1, Type: mediaType, Filename: filename, Body: body})
	return nil
}
