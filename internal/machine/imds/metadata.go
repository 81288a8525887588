package imds

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// timeForm is IMDS's time format.
const timeForm = "2006-01-02T15:04:05Z"

// addr returns the text of an address, or "" if there is none.
func addr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func addrs(as []netip.Addr) []string {
	out := make([]string, len(as))
	for i, a := range as {
		out[i] = a.String()
	}
	return out
}

// metadata returns the categories below meta-data.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html#instancedata-data-categories
func (s *Service) metadata(in *Instance) tree {
	t := tree{}
	t.set("ami-id", in.Image.ID)
	t.set("ami-launch-index", strconv.Itoa(in.LaunchIndex))
	t.set("ami-manifest-path", "(unknown)")
	t.set("block-device-mapping/ami", in.RootDevice)
	t.set("block-device-mapping/root", in.RootDevice)
	for i, device := range in.Volumes {
		t.set(fmt.Sprintf("block-device-mapping/ebs%d", i+1), strings.TrimPrefix(device, "/dev/"))
	}
	t.set("events/maintenance/history", "[]")
	t.set("events/maintenance/scheduled", "[]")
	t.set("hibernation/configured", "false")
	t.set("hostname", in.PrivateDNSName)
	t.set("instance-action", "none")
	t.set("instance-id", in.ID)
	t.set("instance-life-cycle", map[bool]string{false: "on-demand", true: "spot"}[in.Spot])
	t.set("instance-type", in.Type.Name)
	t.set("local-hostname", in.PrivateDNSName)
	t.set("local-ipv4", addr(in.PrivateIP))
	t.set("metrics/vhostmd", `<?xml version="1.0" encoding="UTF-8"?>`)
	t.set("placement/availability-zone", in.AvailabilityZone)
	t.set("placement/availability-zone-id", in.ZoneID)
	t.set("placement/region", in.Region)
	t.set("placement/group-name", in.PlacementGroup)
	if in.Partition != 0 {
		t.set("placement/partition-number", strconv.Itoa(int(in.Partition)))
	}
	t.set("placement/host-id", in.HostID)
	t.set("profile", "default-hvm")
	t.set("public-hostname", in.PublicDNSName)
	t.set("public-ipv4", addr(in.PublicIP))
	t.set("reservation-id", in.ReservationID)
	t.list("security-groups", in.SecurityGroups)
	t.set("services/domain", "amazonaws.com")
	t.set("services/partition", "aws")
	t.set("system", in.Hypervisor)
	s.keys(t, in)
	s.iam(t, in)
	spot(t, in)
	if in.TargetState != nil {
		t["autoscaling/target-lifecycle-state"] = func(ctx context.Context) ([]byte, error) {
			state, err := in.TargetState(ctx)
			return []byte(state), err
		}
	}
	if in.Options.Tags {
		for k, v := range in.Tags {
			v := []byte(v) // an empty value is a value
			t["tags/instance/"+k] = func(context.Context) ([]byte, error) { return v, nil }
		}
	}
	t.set("mac", in.MAC)
	t.set("network/interfaces/macs", in.MAC) // for the listing; see get
	return t
}

// keys adds the public key of the key pair, whose folder lists it as 0=NAME, and those of EC2 Instance Connect.
func (s *Service) keys(t tree, in *Instance) {
	for user, keys := range in.ActiveKeys {
		t.list("managed-ssh-keys/active-keys/"+user, keys)
	}
	if in.KeyName == "" || in.PublicKey == "" {
		return
	}
	t.set("public-keys/0/openssh-key", in.PublicKey)
	t["public-keys"] = func(context.Context) ([]byte, error) { return []byte("0=" + in.KeyName), nil }
}

// iam adds the instance profile and its role's credentials.
func (s *Service) iam(t tree, in *Instance) {
	t.set("identity-credentials/ec2/info", object(
		"Code", "Success", "LastUpdated", in.LaunchTime.UTC().Format(timeForm), "AccountId", in.Account))
	if in.ProfileARN == "" {
		return
	}
	t["iam/info"] = func(ctx context.Context) ([]byte, error) {
		if in.RoleName == "" {
			e := NoProfile()
			return []byte(object("Code", e.Code, "Message", e.Message, "LastUpdated", s.clock.Now().UTC().Format(timeForm))), nil
		}
		h, err := s.current(ctx, in)
		if err != nil {
			return nil, err
		}
		if e := h.refused; e != nil {
			return []byte(object("Code", e.Code, "Message", e.Message, "LastUpdated", h.issued.Format(timeForm))), nil
		}
		return []byte(object("Code", "Success", "LastUpdated", h.issued.Format(timeForm),
			"InstanceProfileArn", in.ProfileARN, "InstanceProfileId", in.ProfileID)), nil
	}
	if in.RoleName == "" {
		return
	}
	t["iam/security-credentials/"+in.RoleName] = func(ctx context.Context) ([]byte, error) {
		h, err := s.current(ctx, in)
		if err != nil {
			return nil, err
		}
		updated := h.issued.Format(timeForm)
		if e := h.refused; e != nil {
			return []byte(object("Code", e.Code, "Message", e.Message, "LastUpdated", updated)), nil
		}
		return []byte(object(
			"Code", "Success", "LastUpdated", updated, "Type", "AWS-HMAC", "AccessKeyId", h.AccessKeyID, "SecretAccessKey", h.SecretAccessKey,
			"Token", h.SessionToken, "Expiration", h.Expiration.UTC().Format(timeForm))), nil
	}
}

// spot adds the warnings to a Spot Instance.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
func spot(t tree, in *Instance) {
	if in.SpotAction != "" {
		at := in.SpotActionTime.UTC().Format(timeForm)
		t.set("spot/instance-action", fmt.Sprintf(`{"action":%q,"time":%q}`, in.SpotAction, at))
		if in.SpotAction == "terminate" {
			t.set("spot/termination-time", at)
		}
	}
	if !in.Rebalance.IsZero() {
		t.set("events/recommendations/rebalance", fmt.Sprintf(`{"noticeTime":%q}`, in.Rebalance.UTC().Format(timeForm)))
	}
}

// networkInterface adds a folder named after the interface's MAC address, which the VPC CNI, the cloud provider and
// bootstrap.sh read.
func (t tree) networkInterface(n Interface) {
	dir := "network/interfaces/macs/" + n.MAC + "/"
	t.set(dir+"device-number", strconv.Itoa(n.DeviceNumber))
	t.set(dir+"network-card", strconv.Itoa(n.NetworkCard))
	t.set(dir+"interface-id", n.ID)
	t.set(dir+"mac", n.MAC)
	t.set(dir+"owner-id", n.OwnerID)
	t.set(dir+"local-hostname", n.LocalHostname)
	t.set(dir+"public-hostname", n.PublicHostname)
	t.list(dir+"local-ipv4s", addrs(n.PrivateIPs))
	t.list(dir+"ipv6s", addrs(n.IPv6s))
	t.list(dir+"ipv4-prefix", n.IPv4Prefixes)
	t.list(dir+"ipv6-prefix", n.IPv6Prefixes)
	var public []string
	for p, local := range n.PublicIPs {
		public = append(public, p.String())
		t.set(dir+"ipv4-associations/"+p.String(), local.String())
	}
	slices.Sort(public)
	t.list(dir+"public-ipv4s", public)
	t.list(dir+"security-group-ids", n.SecurityGroupIDs)
	t.list(dir+"security-groups", n.SecurityGroups)
	t.set(dir+"subnet-id", n.SubnetID)
	t.set(dir+"subnet-ipv4-cidr-block", n.SubnetCIDR)
	t.list(dir+"subnet-ipv6-cidr-blocks", n.SubnetIPv6CIDRs)
	t.set(dir+"vpc-id", n.VPCID)
	if len(n.VPCCIDRs) > 0 {
		t.set(dir+"vpc-ipv4-cidr-block", n.VPCCIDRs[0])
	}
	t.list(dir+"vpc-ipv4-cidr-blocks", n.VPCCIDRs)
	t.list(dir+"vpc-ipv6-cidr-blocks", n.VPCIPv6CIDRs)
}

// object writes a JSON object of strings as IMDS does: one member per line, in the given order.
func object(pairs ...string) string {
	var b strings.Builder
	b.WriteString("{\n")
	for i := 0; i < len(pairs); i += 2 {
		sep := ",\n"
		if i+2 == len(pairs) {
			sep = "\n"
		}
		fmt.Fprintf(&b, "  %s : %s%s", quote(pairs[i]), quote(pairs[i+1]), sep)
	}
	b.WriteString("}")
	return b.String()
}

// NoProfile returns the error for a profile that was deleted, or whose role was.
func NoProfile() *RoleError {
	return &RoleError{Code: "InstanceProfileNotFound", Message: "Instance Profile does not exist. Please see documentation at " + roleErrorPage + "."}
}

const roleErrorPage = "https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html#troubleshoot_iam-ec2_errors-info-doc"

// NotTrusted returns the error for a role whose trust policy does not let EC2 assume it.
func NotTrusted(role string) *RoleError {
	return &RoleError{Code: "AssumeRoleUnauthorizedAccess", Message: "EC2 cannot assume the role " + role + ". Please see documentation at " + roleErrorPage + "."}
}

// A holder has credentials of its own: those that IMDSv1 and IMDSv2 deliver differ in ec2:RoleDelivery.
type holder struct {
	instanceID string
	version    int
}

// held are the credentials that an instance is shown until they are rotated.
type held struct {
	Credentials
	role    string
	issued  time.Time
	refused *RoleError
}

const (
	// rotateAfter is when credentials are replaced: IMDS shows new ones about every hour, well before the old ones
	// expire.
	rotateAfter = time.Hour
	// askAgain is when a refused role is tried again.
	askAgain = 5 * time.Second
)

// current returns the credentials to show. Two concurrent requests may both issue new ones; both sets are valid.
func (s *Service) current(ctx context.Context, in *Instance) (*held, error) {
	now, who := s.clock.Now().UTC(), holder{in.ID, in.version}
	s.mu.Lock()
	h := s.credentials[who]
	s.mu.Unlock()
	if h != nil && h.role == in.ProfileARN+in.RoleName {
		age := now.Sub(h.issued)
		if h.refused != nil && age < askAgain || h.refused == nil && age < rotateAfter && now.Add(5*time.Minute).Before(h.Expiration) {
			return h, nil
		}
	}
	c, err := s.source.Credentials(ctx, in.ID, in.version)
	next := &held{Credentials: c, role: in.ProfileARN + in.RoleName, issued: now}
	if err != nil {
		refused, ok := asRoleError(err)
		if !ok {
			return nil, err
		}
		next.refused = refused
	}
	s.mu.Lock()
	s.credentials[who] = next
	s.mu.Unlock()
	return next, nil
}
