package wire

import (
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// Bounds of a request. They are far above what AWS accepts and keep what a
// hostile request can cost in proportion to its size.
const (
	maxDepth = 64     // nested structures, lists and maps
	maxNames = 50_000 // names in the parameters of a query request: a.1.b has three
	// maxValues bounds the values of a JSON body and the elements of an XML one. A value
	// that takes three bytes on the wire may take hundreds in memory.
	maxValues = 200_000
	// maxFound bounds the missing members, and likewise the unknown ones, that an error
	// lists.
	maxFound = 1000
)

// A decoder collects what all protocols find out while they fill in a struct.
type decoder struct {
	op       *model.Operation
	members  awsapi.Members
	missing  []missing
	unknowns int
}

// missing is an absent required member: its path as validation errors print it
// (members in lower camel case, list positions as N.member), and the query
// parameter's name.
type missing struct {
	path  string
	param string
}

// join appends a member's name to a path. A name of the request's own making (a map's
// key) has to be clipped: what is below it has it in its path, too.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// joinIndex appends the position of a list's element, which counts from 1.
func joinIndex(path string, i int) string {
	return path + "." + strconv.Itoa(i+1) + ".member"
}

// unknown records a parameter that the model, or the SDK's struct, does not have.
// The path is the wire's, with slashes, so that no list of honoured members can
// cover it: whoever honours "Tags" has not promised anything of "Tags/1/Color".
func (d *decoder) unknown(wirePath string) {
	if d.unknowns++; d.unknowns <= maxFound { // one is enough for the request to be refused
		d.members.Add(strings.ReplaceAll(wirePath, ".", "/"))
	}
}

// lacks records an absent required member.
func (d *decoder) lacks(path, param string) {
	if len(d.missing) < maxFound {
		d.missing = append(d.missing, missing{path, param})
	}
}

// finish returns the error about missing members, if there are any.
func (d *decoder) finish() error {
	if len(d.missing) == 0 {
		return nil
	}
	return validation(d.op.Service).missing(d.op, d.missing)
}

// tooDeep is the answer to nesting beyond maxDepth.
func tooDeep(svc *model.Service) *awserr.Error {
	return malformed(svc, "The request is nested too deeply.")
}

// tooMany is the answer to more names or values than are read.
func tooMany(svc *model.Service) *awserr.Error {
	return malformed(svc, "The request has too many parameters.")
}
