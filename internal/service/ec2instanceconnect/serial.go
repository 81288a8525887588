package ec2instanceconnect

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsconnect "github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	connecttypes "github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
)

// SendSerialConsoleSSHPublicKey lets a key open the serial console of an instance for a minute, if the account has enabled
// access to serial consoles and no session of the instance's console is open. Package serialconsole serves the console.
// https://docs.aws.amazon.com/ec2-instance-connect/latest/APIReference/API_SendSerialConsoleSSHPublicKey.html
func (s *Service) SendSerialConsoleSSHPublicKey(ctx context.Context, in *awsconnect.SendSerialConsoleSSHPublicKeyInput) (*awsconnect.SendSerialConsoleSSHPublicKeyOutput, error) {
	i, err := s.running(ctx, *in.InstanceId)
	if err != nil {
		return nil, err
	}
	line, err := publicKey(in.SSHPublicKey)
	if err != nil {
		return nil, err
	}
	access, err := s.cfg.EC2.GetSerialConsoleAccessStatus(ctx, &awsec2.GetSerialConsoleAccessStatusInput{})
	switch {
	case err != nil:
		return nil, err
	case !aws.ToBool(access.SerialConsoleAccessEnabled):
		return nil, &connecttypes.SerialConsoleAccessDisabledException{Message: aws.String("Your account is not authorized to use the EC2 Serial Console. To authorize your account, run the EnableSerialConsoleAccess API. For more information, see EnableSerialConsoleAccess in the Amazon EC2 API Reference.")}
	case !onNitro(i.InstanceType):
		return nil, &connecttypes.EC2InstanceTypeInvalidException{Message: aws.String("The instance type is not supported for connecting via the serial console. Only Nitro instance types are currently supported.")}
	case s.consoleInUse != nil && s.consoleInUse(*in.InstanceId):
		return nil, &connecttypes.SerialConsoleSessionLimitExceededException{Message: aws.String("The instance currently has 1 active serial console session. Only 1 session is supported at a time.")}
	}
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	add(s.serial, *in.InstanceId, key{awsapi.CallFrom(ctx).Account, "", line, now.Add(keyLife)}, now)
	return &awsconnect.SendSerialConsoleSSHPublicKeyOutput{RequestId: aws.String(awsapi.CallFrom(ctx).RequestID), Success: true}, nil
}

// onNitro reports whether instances of a type have a serial console. Types that are not in the catalogue are newer, so they
// have one.
func onNitro(t ec2types.InstanceType) bool {
	info, ok := instancetypes.Info(string(t))
	return !ok || info.Hypervisor == ec2types.InstanceTypeHypervisorNitro || aws.ToBool(info.BareMetal)
}

// SerialKeys returns the keys that may open the serial console of an instance now.
func (s *Service) SerialKeys(instanceID string) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range valid(s.serial, instanceID, s.cfg.Clock.Now()) {
		lines = append(lines, k.line)
	}
	return lines
}
