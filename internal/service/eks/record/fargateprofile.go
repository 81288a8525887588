package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// FargateProfiles are kept under CLUSTER/NAME.
var FargateProfiles = store.NewCollection[FargateProfile]("eks", "fargateprofile")

// A FargateProfile is a Fargate profile. Nothing of it changes but its status
// and tags.
type FargateProfile struct {
	Profile        ekstypes.FargateProfile
	UUID           string // the last part of the ARN
	Token, Request string
	Since          time.Time
	// Role is the pod execution role.
	Role Identity
	// AccessEntryMade says the role's access entry was EKS's own doing.
	AccessEntryMade bool
}

// Name is the profile's name.
func (p *FargateProfile) Name() string { return *p.Profile.FargateProfileName }
