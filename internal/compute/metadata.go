package compute

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/imds"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
)

// metadataSecrets holds the key of the instance metadata service's tokens, and metadataIdentities the key that signs
// identity documents. Both belong to the installation, not to an account.
var (
	metadataSecrets    = store.NewCollection[metadataSecret]("imds", "secret")
	metadataIdentities = store.NewCollection[metadataIdentity]("imds", "identity")
)

var metadataKey = store.Key{Account: "installation", ID: "1"}

type (
	metadataSecret   struct{ Secret []byte }
	metadataIdentity struct{ Key, Certificate []byte } // DER
)

// connectMetadata creates the instance metadata service.
func (m *Machines) connectMetadata(ctx context.Context) error {
	secret, err := once(ctx, m.cfg.Store, metadataSecrets, func() (metadataSecret, error) {
		b := make([]byte, 32)
		_, _ = rand.Read(b) // never fails
		return metadataSecret{b}, nil
	})
	if err != nil {
		return fmt.Errorf("the secret of instance metadata: %w", err)
	}
	m.secret = secret.Secret
	var mu sync.Mutex
	var known *imds.Identity
	m.metadata = imds.New(imds.Config{
		Source: &metadataSource{m},
		Secret: secret.Secret,
		Clock:  m.cfg.Clock,
		Log:    m.cfg.Log,
		// Creating an RSA key takes a while, and signatures are rarely requested.
		Identity: func(ctx context.Context) (imds.Identity, error) {
			mu.Lock()
			defer mu.Unlock()
			if known != nil {
				return *known, nil
			}
			rec, err := once(ctx, m.cfg.Store, metadataIdentities, func() (metadataIdentity, error) {
				key, cert, err := imds.NewIdentity(m.cfg.Clock.Now())
				return metadataIdentity{key, cert}, err
			})
			if err != nil {
				return imds.Identity{}, err
			}
			id, err := imds.ParseIdentity(rec.Key, rec.Certificate)
			if err == nil {
				known = &id
			}
			return id, err
		},
	})
	return nil
}

// once returns the collection's only record, and creates it if it does not exist yet.
func once[T any](ctx context.Context, st *store.Store, c store.Collection[T], make func() (T, error)) (T, error) {
	rec, err := c.Get(st, metadataKey)
	if !errors.Is(err, store.ErrNotFound) {
		return rec, err
	}
	if rec, err = make(); err != nil {
		return rec, err
	}
	err = st.Update(ctx, func(tx *store.Tx) error {
		old, err := c.Get(tx, metadataKey)
		if errors.Is(err, store.ErrNotFound) {
			return c.Create(tx, metadataKey, rec)
		}
		rec = old
		return err
	})
	return rec, err
}

// GetCertificate returns the certificate of identity documents, which AWS publishes per region.
func (m *Machines) GetCertificate(w http.ResponseWriter, r *http.Request) {
	cert, err := m.metadata.Certificate(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-pem-file")
	_, _ = w.Write(cert) // an error means that the client has disconnected
}

// metadataOf connects an instance to its own metadata service.
func (m *Machines) metadataOf(instanceID string) http.RoundTripper {
	return m.Metadata(instanceID, 1)
}

// A noProfileError is the error for an instance without an instance profile, by its ID.
type noProfileError string

func (e noProfileError) Error() string { return "instance " + string(e) + " has no instance profile" }

// Cause implements the method that node.CauseOf uses.
func (e noProfileError) Cause() string { return node.CauseNoProfile }

// credentials returns what the instance's metadata service provides.
func (m *Machines) credentials(ctx context.Context, instanceID string) (aws.Credentials, error) {
	if _, ok := m.fargates.machine(instanceID); ok { // it has no metadata service
		return m.fargates.credentials(ctx, instanceID)
	}
	c, err := imds.Client{Transport: m.metadataOf(instanceID)}.Credentials(ctx)
	if errors.Is(err, imds.ErrNotFound) {
		return aws.Credentials{}, noProfileError(instanceID)
	}
	if err != nil {
		return aws.Credentials{}, err
	}
	return aws.Credentials{
		AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken,
		CanExpire: true, Expires: c.Expiration, Source: "instance role",
	}, nil
}

// metadataSource gives the metadata service access to EC2, IAM and STS.
type metadataSource struct{ m *Machines }

var _ imds.Source = (*metadataSource)(nil)

// find returns a running instance as EC2 describes it, and as it was started.
func (s *metadataSource) find(instanceID string) (machine.Instance, ec2types.Instance, error) {
	m, err := s.m.Instance(instanceID)
	if err != nil {
		return m, ec2types.Instance{}, imds.ErrNotRunning
	}
	i, ok := s.m.cfg.EC2.InstanceByID(m.Account, m.Region, instanceID)
	if !ok {
		return m, i, imds.ErrNotRunning
	}
	return m, i, nil
}

// call returns a context for calls on behalf of the instance's account.
func call(ctx context.Context, m machine.Instance) context.Context {
	return awsapi.WithCall(ctx, &awsapi.Call{Account: m.Account, Region: m.Region})
}

// Instance implements imds.Source.
func (s *metadataSource) Instance(ctx context.Context, instanceID string) (imds.Instance, error) {
	m, i, err := s.find(instanceID)
	if err != nil {
		return imds.Instance{}, err
	}
	out := imds.Instance{
		Instance: m, LaunchIndex: int(aws.ToInt32(i.AmiLaunchIndex)), SecurityGroups: groupNames(i.SecurityGroups),
		Hypervisor: string(ec2types.InstanceTypeHypervisorNitro), RootDevice: aws.ToString(i.RootDeviceName),
	}
	// These may have changed since it was started.
	out.PrivateDNSName, out.PublicDNSName = aws.ToString(i.PrivateDnsName), aws.ToString(i.PublicDnsName)
	out.PublicIP, out.Tags, out.ProfileARN = address(i.PublicIpAddress), map[string]string{}, ""
	if info, ok := instancetypes.Info(string(i.InstanceType)); ok && info.Hypervisor != "" {
		out.Hypervisor = string(info.Hypervisor)
	}
	if o := i.MetadataOptions; o != nil {
		out.Options = imds.Options{
			Disabled:       o.HttpEndpoint == ec2types.InstanceMetadataEndpointStateDisabled,
			TokensRequired: o.HttpTokens == ec2types.HttpTokensStateRequired,
			HopLimit:       int(aws.ToInt32(o.HttpPutResponseHopLimit)),
			Tags:           o.InstanceMetadataTags == ec2types.InstanceMetadataTagsStateEnabled,
		}
	}
	for _, t := range i.Tags {
		out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	// Only volumes that were there at the launch or the last start, which LaunchTime is, in whole seconds.
	// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html (block-device-mapping/ebsN)
	for _, v := range i.BlockDeviceMappings {
		if name := aws.ToString(v.DeviceName); name != out.RootDevice && v.Ebs != nil && !aws.ToTime(v.Ebs.AttachTime).Truncate(1e9).After(aws.ToTime(i.LaunchTime)) {
			out.Volumes = append(out.Volumes, name)
		}
	}
	if out.Tags[groupTag] != "" && s.m.cfg.AutoScaling != nil {
		out.TargetState = func(ctx context.Context) (string, error) { return s.targetState(call(ctx, m), instanceID) }
	}
	if f := s.m.cfg.Faults.Instance(fault.Terminate, m.Account, m.Region, instanceID); f != nil && out.Spot {
		out.SpotAction, out.SpotActionTime = "terminate", f.Until
	}
	if i.Placement != nil {
		out.PlacementGroup, out.HostID = aws.ToString(i.Placement.GroupName), aws.ToString(i.Placement.HostId)
		out.Partition = aws.ToInt32(i.Placement.PartitionNumber)
	}
	if i.IamInstanceProfile != nil {
		out.ProfileARN, out.ProfileID = aws.ToString(i.IamInstanceProfile.Arn), aws.ToString(i.IamInstanceProfile.Id)
		role, err := s.role(ctx, m, out.ProfileARN)
		if err != nil {
			return out, err
		}
		out.RoleName = role.Name
	}
	if s.m.cfg.ConnectKeys != nil {
		out.ActiveKeys = s.m.cfg.ConnectKeys(instanceID)
	}
	if out.KeyName != "" {
		keys, err := s.m.cfg.EC2.DescribeKeyPairs(call(ctx, m), &awsec2.DescribeKeyPairsInput{KeyNames: []string{out.KeyName}, IncludePublicKey: aws.Bool(true)})
		if err == nil && len(keys.KeyPairs) == 1 { // nil if the key pair was deleted
			out.PublicKey = strings.TrimSpace(aws.ToString(keys.KeyPairs[0].PublicKey))
		}
	}
	return out, nil
}

// groupTag names the Auto Scaling group of an instance.
const groupTag = "aws:autoscaling:groupName"

// targetState returns the state that an Auto Scaling group wants for the instance.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/retrieving-target-lifecycle-state-through-imds.html
func (s *metadataSource) targetState(ctx context.Context, instanceID string) (string, error) {
	out, err := s.m.cfg.AutoScaling.DescribeAutoScalingInstances(ctx, &awsautoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{instanceID}})
	if err != nil || len(out.AutoScalingInstances) == 0 {
		return "Detached", err
	}
	switch state := aws.ToString(out.AutoScalingInstances[0].LifecycleState); {
	case strings.HasPrefix(state, "Terminat"):
		return "Terminated", nil
	case strings.HasPrefix(state, "Warmed:Terminat"):
		return "Warmed:Terminated", nil
	case strings.HasPrefix(state, "Warmed:"):
		pool, err := s.m.cfg.AutoScaling.DescribeWarmPool(ctx, &awsautoscaling.DescribeWarmPoolInput{AutoScalingGroupName: out.AutoScalingInstances[0].AutoScalingGroupName})
		if err != nil || pool.WarmPoolConfiguration == nil {
			return "Warmed:Terminated", err
		}
		return "Warmed:" + string(pool.WarmPoolConfiguration.PoolState), nil
	case strings.HasPrefix(state, "Detach"):
		return "Detached", nil
	case state == "Standby" || state == "EnteringStandby":
		return "Standby", nil
	default: // Pending and its wait states, InService
		return "InService", nil
	}
}

// role returns the current role of a profile, or the zero Role if there is none.
func (s *metadataSource) role(ctx context.Context, m machine.Instance, profileARN string) (iam.Role, error) {
	_, role, err := s.m.cfg.IAM.InstanceProfileRole(ctx, m.Account, profileARN)
	if errors.Is(err, iam.ErrNoSuchInstanceProfile) || errors.Is(err, iam.ErrNoSuchRole) {
		return iam.Role{}, nil
	}
	return role, err
}

// Credentials implements imds.Source.
func (s *metadataSource) Credentials(ctx context.Context, instanceID string, version int) (imds.Credentials, error) {
	m, i, err := s.find(instanceID)
	if err != nil {
		return imds.Credentials{}, err
	}
	if i.IamInstanceProfile == nil {
		return imds.Credentials{}, noProfileError(instanceID)
	}
	role, err := s.role(ctx, m, aws.ToString(i.IamInstanceProfile.Arn))
	if err != nil {
		return imds.Credentials{}, err
	}
	if role.ARN == "" {
		return imds.Credentials{}, imds.NoProfile()
	}
	ctx = awsapi.AsServicePrincipal(ctx, m.Account, m.Region, "ec2.amazonaws.com", "", s.m.cfg.Clock.Now())
	awsapi.CallFrom(ctx).Principal.Instance = awsapi.SourceInstance{
		ARN: arn.New("ec2", m.Region, m.Account, "instance/"+instanceID), VPCID: aws.ToString(i.VpcId),
		PrivateIP: aws.ToString(i.PrivateIpAddress), Delivery: fmt.Sprintf("%d.0", version),
	}
	c, err := s.m.assume(ctx, role.ARN, instanceID)
	if refused, ok := errors.AsType[smithy.APIError](err); ok && refused.ErrorCode() == "AccessDenied" {
		return imds.Credentials{}, imds.NotTrusted(role.Name)
	}
	if err != nil {
		return imds.Credentials{}, err
	}
	return imds.Credentials{AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey, SessionToken: *c.SessionToken, Expiration: *c.Expiration}, nil
}

// assume returns credentials of a role, which the service that ctx says assumes for a
// machine.
func (m *Machines) assume(ctx context.Context, roleARN, session string) (*ststypes.Credentials, error) {
	out, err := awsapi.Do[awssts.AssumeRoleOutput](ctx, m.cfg.API, &awssts.AssumeRoleInput{RoleArn: &roleARN, RoleSessionName: &session})
	if err != nil {
		return nil, err
	}
	return out.Credentials, nil
}

// Interfaces implements imds.Source.
func (s *metadataSource) Interfaces(ctx context.Context, instanceID string) ([]imds.Interface, error) {
	m, i, err := s.find(instanceID)
	if err != nil {
		return nil, err
	}
	var out []imds.Interface
	for _, n := range i.NetworkInterfaces {
		nic, err := s.networkInterface(call(ctx, m), n)
		if err != nil {
			return nil, fmt.Errorf("describing network interface %s: %w", aws.ToString(n.NetworkInterfaceId), err)
		}
		if nic.DeviceNumber == 0 && nic.NetworkCard == 0 {
			nic.PublicHostname = aws.ToString(i.PublicDnsName)
		}
		out = append(out, nic)
	}
	return out, nil
}

func (s *metadataSource) networkInterface(ctx context.Context, n ec2types.InstanceNetworkInterface) (imds.Interface, error) {
	out := imds.Interface{
		ID: aws.ToString(n.NetworkInterfaceId), MAC: aws.ToString(n.MacAddress), OwnerID: aws.ToString(n.OwnerId),
		SubnetID: aws.ToString(n.SubnetId), VPCID: aws.ToString(n.VpcId), LocalHostname: aws.ToString(n.PrivateDnsName),
		PublicIPs: map[netip.Addr]netip.Addr{}, SecurityGroups: groupNames(n.Groups),
	}
	if a := n.Attachment; a != nil {
		out.DeviceNumber, out.NetworkCard = int(aws.ToInt32(a.DeviceIndex)), int(aws.ToInt32(a.NetworkCardIndex))
	}
	for _, g := range n.Groups {
		out.SecurityGroupIDs = append(out.SecurityGroupIDs, aws.ToString(g.GroupId))
	}
	for _, p := range n.PrivateIpAddresses {
		private := address(p.PrivateIpAddress)
		out.PrivateIPs = append(out.PrivateIPs, private)
		if p.Association != nil {
			if public := address(p.Association.PublicIp); public.IsValid() {
				out.PublicIPs[public] = private
			}
		}
	}
	for _, a := range n.Ipv6Addresses {
		if ip := address(a.Ipv6Address); ip.IsValid() {
			out.IPv6s = append(out.IPv6s, ip)
		}
	}
	for _, p := range n.Ipv4Prefixes {
		out.IPv4Prefixes = append(out.IPv4Prefixes, aws.ToString(p.Ipv4Prefix))
	}
	for _, p := range n.Ipv6Prefixes {
		out.IPv6Prefixes = append(out.IPv6Prefixes, aws.ToString(p.Ipv6Prefix))
	}
	subnets, err := s.m.cfg.EC2.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{out.SubnetID}})
	if err != nil {
		return out, err
	}
	for _, sn := range subnets.Subnets {
		out.SubnetCIDR = aws.ToString(sn.CidrBlock)
		for _, a := range sn.Ipv6CidrBlockAssociationSet {
			out.SubnetIPv6CIDRs = append(out.SubnetIPv6CIDRs, aws.ToString(a.Ipv6CidrBlock))
		}
	}
	vpcs, err := s.m.cfg.EC2.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{out.VPCID}})
	if err != nil {
		return out, err
	}
	for _, v := range vpcs.Vpcs {
		out.VPCCIDRs = append(out.VPCCIDRs, aws.ToString(v.CidrBlock))
		for _, a := range v.CidrBlockAssociationSet {
			if c := aws.ToString(a.CidrBlock); c != out.VPCCIDRs[0] && (a.CidrBlockState == nil || a.CidrBlockState.State == ec2types.VpcCidrBlockStateCodeAssociated) {
				out.VPCCIDRs = append(out.VPCCIDRs, c)
			}
		}
		for _, a := range v.Ipv6CidrBlockAssociationSet {
			out.VPCIPv6CIDRs = append(out.VPCIPv6CIDRs, aws.ToString(a.Ipv6CidrBlock))
		}
	}
	return out, nil
}

func groupNames(groups []ec2types.GroupIdentifier) []string {
	var out []string
	for _, g := range groups {
		out = append(out, aws.ToString(g.GroupName))
	}
	return out
}

// address parses an address. It returns the zero Addr if there is none.
func address(s *string) netip.Addr {
	a, _ := netip.ParseAddr(aws.ToString(s))
	return a
}

// VerifyIdentity returns the running instance that an identity document belongs to, as a caller, and its region. It
// returns an error if the metadata service has not signed the document.
func (m *Machines) VerifyIdentity(ctx context.Context, document, signature []byte) (awsapi.Principal, string, error) {
	id, err := m.metadata.VerifyDocument(ctx, document, signature)
	if err != nil {
		return awsapi.Principal{}, "", err
	}
	in, i, err := (&metadataSource{m}).find(id)
	if err != nil {
		return awsapi.Principal{}, "", err
	}
	p := awsapi.Principal{
		Type: awsapi.InstanceCaller, Account: in.Account, UserID: id, Name: id, Tags: map[string]string{},
		ARN: "arn:" + awsapi.Partition + ":ec2:" + in.Region + ":" + in.Account + ":instance/" + id,
	}
	for _, t := range i.Tags {
		p.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return p, in.Region, nil
}
