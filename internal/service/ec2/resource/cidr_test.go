package resource

import "testing"

func FuzzParseCIDR(f *testing.F) {
	for _, s := range []string{"10.0.0.0/16", "10.1.2.3/8", "::/0", "::ffff:1.2.3.4/96", "1.2.3.4", "10.0.0.0/016"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := ParseCIDR(s)
		if !ok {
			return
		}
		if q, again := ParseCIDR(p.String()); !again || q != p || p != p.Masked() || !p.Addr().Is4() {
			t.Errorf("%q gives %v, then %v", s, p, q)
		}
	})
}
