package resource

import (
	"fmt"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// The tagging operations know other exceptions.
func errNotFound(arn string) error {
	return &ekstypes.NotFoundException{Message: new(fmt.Sprintf("The specified resource could not be found: %s", arn))}
}

func errBadTag(format string, args ...any) error {
	return &ekstypes.BadRequestException{Message: new(fmt.Sprintf(format, args...))}
}

func errNoUpdate(id string) error { return ekserr.NotFound("No update found for ID: %s", id) }
