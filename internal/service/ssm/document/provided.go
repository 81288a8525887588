package document

import (
	"embed"
	"maps"
	"slices"
	"strings"
	"time"
)

// The implemented documents of those that AWS provides. Their contents follow AWS's documentation:
// https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html,
// https://docs.aws.amazon.com/systems-manager/latest/userguide/documents-command-ssm-plugin-reference.html
//
//go:embed aws/*.json
var files embed.FS

// A Provided is a document that AWS provides.
type Provided struct {
	*Document
	Name, Type, Content string
	Created             time.Time
}

// Shell is the name of the document for sessions that do not name one. An account may have its own document of that name,
// which contains its preferences.
const Shell = "SSM-SessionManagerRunShell"

var provided = func() map[string]*Provided {
	out := map[string]*Provided{}
	entries, err := files.ReadDir("aws")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		b, err := files.ReadFile("aws/" + e.Name())
		if err != nil {
			panic(err)
		}
		p := &Provided{Name: strings.TrimSuffix(e.Name(), ".json"), Type: Session, Content: string(b), Created: time.Date(2019, 8, 1, 0, 0, 0, 0, time.UTC)}
		if p.Name != Shell && !strings.HasPrefix(p.Name, "AWS-Start") {
			p.Type = Command
		}
		if p.Document, err = Parse(p.Type, "JSON", p.Content); err != nil {
			panic(p.Name + ": " + err.Error())
		}
		out[p.Name] = p
	}
	return out
}()

// ByName returns a document that AWS provides.
func ByName(name string) (*Provided, bool) {
	p, ok := provided[name]
	return p, ok
}

// All returns the documents that AWS provides, sorted by name. It omits Shell, which does not exist in an account until
// somebody creates it to set preferences.
func All() []*Provided {
	out := []*Provided{}
	for _, name := range slices.Sorted(maps.Keys(provided)) {
		if name != Shell {
			out = append(out, provided[name])
		}
	}
	return out
}
