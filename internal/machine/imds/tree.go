package imds

import (
	"context"
	"slices"
	"strings"
)

// A tree holds the categories below meta-data or dynamic by their paths, without trailing slashes.
type tree map[string]leaf

// A leaf produces its text on request.
type leaf func(ctx context.Context) ([]byte, error)

// set adds a text. If it is empty, the category does not exist.
func (t tree) set(path, text string) {
	if text != "" {
		t[path] = func(context.Context) ([]byte, error) { return []byte(text), nil }
	}
}

// list adds a text of several lines.
func (t tree) list(path string, lines []string) { t.set(path, strings.Join(lines, "\n")) }

// get returns a leaf's text or a folder's listing.
func (t tree) get(ctx context.Context, words []string) (text []byte, found bool, err error) {
	path := strings.Join(words, "/")
	if l, ok := t[path]; ok {
		text, err = l(ctx)
		return text, err == nil, err
	}
	if path != "" {
		path += "/"
	}
	var entries []string
	for p := range t {
		rest, below := strings.CutPrefix(p, path)
		if !below {
			continue
		}
		name, _, folder := strings.Cut(rest, "/")
		if folder {
			name += "/"
		}
		entries = append(entries, name)
	}
	if entries == nil {
		return nil, false, nil
	}
	slices.Sort(entries)
	// A folder may have a text of its own (public-keys), which is one entry.
	entries = slices.DeleteFunc(entries, func(e string) bool { return slices.Contains(entries, e+"/") })
	return []byte(strings.Join(slices.Compact(entries), "\n")), true, nil
}
