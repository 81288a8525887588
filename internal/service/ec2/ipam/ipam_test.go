package ipam

import (
	"context"
	"net/netip"
	"testing"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

func openStore(t testing.TB) *store.Store {
	t.Helper()
	st, err := store.Open(context.Background(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func TestAddressPool(t *testing.T) {
	st := openStore(t)
	sc := resource.Scope{Account: "111111111111", Region: "us-east-1"}
	for _, cidr := range []string{"10.0.0.0/28", "10.0.0.0/24", "10.0.0.0/20"} {
		t.Run(cidr, func(t *testing.T) {
			pool, err := OfSubnet(sc, record.Subnet{ID: "subnet-" + cidr[len(cidr)-2:], CIDR: cidr})
			if err != nil {
				t.Fatal(err)
			}
			usable := pool.size() - reservedAddresses
			seen := map[netip.Addr]bool{}
			take := func(n int) (got []netip.Addr, err error) {
				err = st.Update(t.Context(), func(tx *store.Tx) error {
					got, err = pool.Take(tx, n, "hint")
					return err
				})
				return got, err
			}
			for len(seen) < usable {
				got, err := take(min(11, usable-len(seen)))
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range got {
					if seen[a] || !pool.prefix.Contains(a) || !pool.usable(pool.index(a)) {
						t.Fatalf("%s handed out twice, or not to be handed out", a)
					}
					seen[a] = true
				}
			}
			if _, err := take(1); !ec2err.HasCode(err, "InsufficientFreeAddressesInSubnet") {
				t.Errorf("a full subnet answers %v", err)
			}
			one := pool.addr(pool.first + 1)
			err = st.Update(t.Context(), func(tx *store.Tx) error {
				if err := pool.Claim(tx, one); !ec2err.HasCode(err, "InvalidIPAddress.InUse") {
					t.Errorf("claiming a taken address: %v", err)
				}
				return pool.Release(tx, one)
			})
			if err != nil {
				t.Fatal(err)
			}
			if free, err := pool.Free(st); err != nil || free != 1 {
				t.Errorf("%d free, %v", free, err)
			}
			if got, err := take(1); err != nil || got[0] != one {
				t.Errorf("got %v, %v; want the freed %s", got, err, one)
			}
		})
	}
}

// A freed address is reused only after all other addresses of its page.
func TestFreedAddressesRest(t *testing.T) {
	st := openStore(t)
	pool, err := OfSubnet(resource.Scope{Account: "111111111111", Region: "us-east-1"}, record.Subnet{ID: "subnet-1", CIDR: "10.0.0.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	last := netip.Addr{}
	for range 100 {
		err := st.Update(t.Context(), func(tx *store.Tx) error {
			got, err := pool.Take(tx, 1, "")
			if err != nil {
				return err
			}
			if got[0] == last {
				t.Errorf("%s again at once", last)
			}
			last = got[0]
			return pool.Release(tx, last)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
