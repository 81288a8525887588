package instance

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// serialConsoles has a record for each account and region in which access to the serial console was enabled or disabled.
var serialConsoles = store.NewCollection[serialConsoleRecord]("ec2", "serial-console")

// A serialConsoleRecord says whether an account may use the serial consoles of its instances in a region. Without a record
// it may not. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configure-access-to-serial-console.html
type serialConsoleRecord struct {
	Enabled bool `json:",omitempty"`
}

const serialConsoleID = "account"

func (s *Service) setSerialConsole(ctx context.Context, dryRun *bool, enabled bool) (*bool, error) {
	key := resource.ScopeOf(ctx).Key(serialConsoleID)
	err := s.Update(ctx, dryRun, func(tx *store.Tx) error { return serialConsoles.Put(tx, key, serialConsoleRecord{enabled}) })
	return &enabled, err
}

// EnableSerialConsoleAccess lets users of the account connect to serial consoles in the region.
func (s *Service) EnableSerialConsoleAccess(ctx context.Context, in *awsec2.EnableSerialConsoleAccessInput) (*awsec2.EnableSerialConsoleAccessOutput, error) {
	enabled, err := s.setSerialConsole(ctx, in.DryRun, true)
	return &awsec2.EnableSerialConsoleAccessOutput{SerialConsoleAccessEnabled: enabled}, err
}

// DisableSerialConsoleAccess ends what EnableSerialConsoleAccess permits.
func (s *Service) DisableSerialConsoleAccess(ctx context.Context, in *awsec2.DisableSerialConsoleAccessInput) (*awsec2.DisableSerialConsoleAccessOutput, error) {
	enabled, err := s.setSerialConsole(ctx, in.DryRun, false)
	return &awsec2.DisableSerialConsoleAccessOutput{SerialConsoleAccessEnabled: enabled}, err
}

// GetSerialConsoleAccessStatus says whether users of the account may connect to serial consoles in the region.
func (s *Service) GetSerialConsoleAccessStatus(ctx context.Context, in *awsec2.GetSerialConsoleAccessStatusInput) (*awsec2.GetSerialConsoleAccessStatusOutput, error) {
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	r, err := serialConsoles.Get(s.Store, resource.ScopeOf(ctx).Key(serialConsoleID))
	if err = store.IgnoreNotFound(err); err != nil {
		return nil, err
	}
	return &awsec2.GetSerialConsoleAccessStatusOutput{ManagedBy: ec2types.ManagedByAccount, SerialConsoleAccessEnabled: aws.Bool(r.Enabled)}, nil
}
