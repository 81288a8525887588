package kms

import (
	"encoding/base64"
)

// A page is one page of a list that is ordered by its names.
type page struct {
	after string // the last name of the page before
	left  int
	last  string
	more  bool
}

func newPage(limit *int32, marker *string, standard, most int32) (*page, error) {
	p := &page{left: int(standard)}
	if limit != nil {
		if err := errRange("limit", *limit, 1, most); err != nil {
			return nil, err
		}
		p.left = int(*limit)
	}
	if marker != nil {
		b, err := base64.RawURLEncoding.DecodeString(*marker)
		if err != nil || len(b) == 0 || len(b) > 1024 {
			return nil, errMarker(*marker)
		}
		p.after = string(b)
	}
	return p, nil
}

// full reports whether no more fits, and remembers that there is more.
func (p *page) full() bool {
	p.more = p.left == 0
	return p.more
}

func (p *page) add(name string) { p.left, p.last = p.left-1, name }

func (p *page) next() (truncated bool, marker *string) {
	if !p.more {
		return false, nil
	}
	return true, new(base64.RawURLEncoding.EncodeToString([]byte(p.last)))
}
