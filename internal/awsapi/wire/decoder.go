package wire

import (
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
	// maxFound bounds the violated constraints, and likewise the unknown members, that an
	// error lists.
	maxFound = 1000
)

// A decoder collects what all protocols find out while they fill in a struct.
type decoder struct {
	op       *model.Operation
	members  awsapi.Members
	unknowns int
}

// join appends a member's name to a path. A name of the request's own making (a map's
// key) has to be clipped: what is below it has it in its path, too.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// unknown records a parameter that the model, or the SDK's struct, does not have.
// The path is the wire's, with slashes, so that it is in no list of supported
// members: supporting "Tags" does not imply supporting "Tags/1/Color".
func (d *decoder) unknown(wirePath string) {
	if d.unknowns++; d.unknowns <= maxFound { // one is enough for the request to be refused
		d.members.Add(strings.ReplaceAll(wirePath, ".", "/"))
	}
}

// tooDeep is the answer to nesting beyond maxDepth.
func tooDeep(svc *model.Service) *awserr.Error {
	return malformed(svc, "The request is nested too deeply.")
}

// tooMany is the answer to more names or values than are read.
func tooMany(svc *model.Service) *awserr.Error {
	return malformed(svc, "The request has too many parameters.")
}
