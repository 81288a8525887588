package wire

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// Limits of a request. They are far above what AWS accepts and keep the cost of a hostile request in proportion to
// its size.
const (
	maxDepth = 64     // nested structures, lists and maps
	maxNames = 50_000 // names in a query request's parameter: a.1.b has three
	// maxValues bounds the values of a JSON body and the elements of an XML one. A value
	// that takes three bytes on the wire may take hundreds in memory.
	maxValues = 200_000
	// maxFound bounds how many violated constraints, and likewise how many unknown members, an error lists.
	maxFound = 1000
)

// A decoder collects what any protocol finds while it fills in a struct.
type decoder struct {
	op       *model.Operation
	members  awsapi.Members
	unknowns int
}

// join appends a member's name to a path. It clips a name that the request itself chose (a map's key), because the
// paths of everything below contain it too.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// unknown records a parameter that the model, or the SDK's struct, does not have. The path is the wire's, with
// slashes, so that it is in no list of supported members: supporting "Tags" does not imply supporting "Tags/1/Color".
func (d *decoder) unknown(wirePath string) {
	if d.unknowns++; d.unknowns <= maxFound { // one is enough to refuse the request
		d.members.Add(strings.ReplaceAll(wirePath, ".", "/"))
	}
}

// tooDeep is the error for nesting beyond maxDepth.
func tooDeep(svc *model.Service) *awserr.Error {
	return malformed(svc, "The request is nested too deeply.")
}

// tooMany is the error for too many names or values.
func tooMany(svc *model.Service) *awserr.Error {
	return malformed(svc, "The request has too many parameters.")
}
