// Package managedpolicies is the catalog of AWS-managed IAM policies, embedded. It only contains data: it parses no
// document and grants nothing. Any package may import it. tools/policygen writes the data; data/SOURCE names its
// source.
package managedpolicies

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // policies
	"encoding/base32"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Account takes the place of the account ID in a managed policy's ARN.
const Account = "aws"

// A Policy is an AWS-managed policy in its default version; older versions are not included.
type Policy struct {
	Name      string
	Path      string // "/", "/service-role/", …
	ARN       string
	ID        string // ANPA…; derived from the name, so it never changes
	VersionID string // v1, v2, …
	Created   time.Time
	Updated   time.Time
	Document  string // compact JSON
}

// Get returns the policy with that ARN.
func Get(arn string) (Policy, bool) {
	c := load()
	i, ok := c.byARN[arn]
	if !ok {
		return Policy{}, false
	}
	return c.all[i], true
}

// All returns every policy, sorted by name. The slice is shared: do not change it.
func All() []Policy { return load().all }

//go:embed data/policies.tsv.gz
var packed []byte

type catalog struct {
	all   []Policy
	byARN map[string]int
}

// load unpacks the data once, at first use.
var load = sync.OnceValue(func() *catalog {
	c := &catalog{byARN: map[string]int{}}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(fmt.Sprintf("managedpolicies: embedded data: %v", err)) // a broken build
	}
	text, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Sprintf("managedpolicies: embedded data: %v", err))
	}
	for line := range strings.Lines(string(text)) {
		p := parse(strings.TrimSuffix(line, "\n"))
		c.byARN[p.ARN] = len(c.all)
		c.all = append(c.all, p)
	}
	return c
})

func parse(line string) Policy {
	f := strings.SplitN(line, "\t", 6)
	p := Policy{Name: f[0], Path: f[1], VersionID: f[2], Document: f[5]}
	p.ARN = "arn:aws:iam::aws:policy" + p.Path + p.Name
	sum := sha256.Sum256([]byte(p.ARN))
	p.ID = "ANPA" + base32.StdEncoding.EncodeToString(sum[:])[:17]
	p.Created, _ = time.Parse(time.RFC3339, f[3]) // written by policygen
	p.Updated, _ = time.Parse(time.RFC3339, f[4])
	return p
}
