package reach_test

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// What happens to an existing connection when the network changes, and to a new one.
func TestConnections(t *testing.T) {
	s := open()
	fromWeb := flow(reach.At("i-web"), reach.At("i-app"), 8080)
	fromLaptop := flow(laptop, reach.At("i-web"), 443) // by rules for all addresses, which are not tracked
	ssh := flow(laptop, reach.At("i-web"), 22)
	out := flow(reach.At("i-app"), reach.Addr(reach.Outside), 443)
	noRules := func(id string) *reach.Snapshot { return edit(s, &reach.SecurityGroup{ID: id, VPC: "vpc-1"}) }
	for _, tt := range []struct {
		name   string
		f      reach.Flow
		next   *reach.Snapshot
		lives  bool
		newOne string // code of a new connection; "" if it can be made
	}{
		{"nothing changes", fromWeb, s, true, ""},
		{"the rule is revoked", fromWeb, noRules("sg-app"), true, "SG_HAS_NO_RULES"},
		{"the source's egress is revoked", fromWeb, noRules("sg-web"), true, "SG_HAS_NO_RULES"},
		{"the rule for one address is revoked", ssh, noRules("sg-web"), true, "SG_HAS_NO_RULES"},
		{"an untracked rule is revoked", fromLaptop, noRules("sg-web"), false, "SG_HAS_NO_RULES"},
		{"an ACL denies", fromWeb, addEntries(t, s, "acl-1", entry(1, false, false, 8080, 8080)), false, "SUBNET_ACL_RESTRICTION"},
		{"an ACL denies replies", fromWeb, addEntries(t, s, "acl-1", entry(1, true, false, 1024, 65535)), false, "SUBNET_ACL_RESTRICTION"},
		{"the route goes", out, reroute(t, s, "rtb-priv", anyone, ""), false, "NO_ROUTE_TO_DESTINATION"},
		{"the NAT gateway goes", out, edit(s, "nat-1", "eni-nat"), false, "BAD_STATE_ROUTE"},
		{"the instance stops", fromWeb, edit(s, &reach.Instance{ID: "i-app", State: "stopped"}), false, "BAD_STATE"},
		{"the address moves away", ssh, with(t, s, "eni-web", func(e *reach.Interface) {
			e.Addresses = []reach.Address{{Private: ip("10.0.0.10"), Public: ip("54.0.0.11")}}
		}), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, ok := s.Check(tt.f).Established()
			if !ok {
				t.Fatal(s.Check(tt.f).Text())
			}
			if v := tt.next.Continues(c); v.Reachable != tt.lives {
				t.Errorf("lives on: %v, want %v\n%s", v.Reachable, tt.lives, v.Text())
			}
			wantCode(t, tt.next.Check(tt.f), tt.newOne)
		})
	}
}
