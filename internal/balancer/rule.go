package balancer

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/glob"
)

// meets reports whether a request meets all conditions. A condition is met if one of its values matches.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html
func meets(all []elbv2types.RuleCondition, r *http.Request, client netip.Addr) bool {
	return !slices.ContainsFunc(all, func(c elbv2types.RuleCondition) bool { return !meetsOne(&c, r, client) })
}

func meetsOne(c *elbv2types.RuleCondition, r *http.Request, client netip.Addr) bool {
	switch {
	case c.HostHeaderConfig != nil:
		host := strings.ToLower(hostOf(r))
		return matches(c.HostHeaderConfig.Values, host, strings.ToLower) || matchesRegex(c.HostHeaderConfig.RegexValues, host)
	case c.PathPatternConfig != nil:
		path := r.URL.EscapedPath()
		return matches(c.PathPatternConfig.Values, path, nil) || matchesRegex(c.PathPatternConfig.RegexValues, path)
	case c.HttpHeaderConfig != nil:
		return slices.ContainsFunc(r.Header.Values(aws.ToString(c.HttpHeaderConfig.HttpHeaderName)), func(v string) bool {
			return matches(c.HttpHeaderConfig.Values, strings.ToLower(v), strings.ToLower) || matchesRegex(c.HttpHeaderConfig.RegexValues, v)
		})
	case c.HttpRequestMethodConfig != nil:
		return slices.Contains(c.HttpRequestMethodConfig.Values, r.Method)
	case c.QueryStringConfig != nil:
		return slices.ContainsFunc(c.QueryStringConfig.Values, func(want elbv2types.QueryStringKeyValuePair) bool { return meetsQuery(&want, r) })
	case c.SourceIpConfig != nil:
		return slices.ContainsFunc(c.SourceIpConfig.Values, func(v string) bool {
			p, err := netip.ParsePrefix(v)
			return err == nil && p.Contains(client)
		})
	}
	return false
}

func meetsQuery(want *elbv2types.QueryStringKeyValuePair, r *http.Request) bool {
	for k, values := range r.URL.Query() {
		if want.Key != nil && !matches([]string{*want.Key}, strings.ToLower(k), strings.ToLower) {
			continue
		}
		if slices.ContainsFunc(values, func(v string) bool {
			return matches([]string{aws.ToString(want.Value)}, strings.ToLower(v), strings.ToLower)
		}) {
			return true
		}
	}
	return false
}

// matches reports whether one of several patterns, after fold, matches.
func matches(patterns []string, s string, fold func(string) string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if fold != nil {
			p = fold(p)
		}
		g := glob.New(p, nil)
		return g.Match(s)
	})
}

func matchesRegex(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		re, err := regexp.Compile(p)
		return err == nil && re.MatchString(s)
	})
}

// hostOf returns the host name of a request, without the port.
func hostOf(r *http.Request) string {
	host := r.Host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return host
}

// portOf returns the port in a request's Host, or 0.
func portOf(r *http.Request) uint16 {
	_, port, _ := strings.Cut(strings.TrimPrefix(r.Host, hostOf(r)), ":")
	n, _ := strconv.ParseUint(port, 10, 16)
	return uint16(n)
}

// weights returns the target groups that an action forwards to, with their weights.
func weights(a elbv2types.Action) (groups []string, weight []int, sum int) {
	if a.ForwardConfig != nil {
		for _, g := range a.ForwardConfig.TargetGroups {
			n := 1
			if g.Weight != nil {
				n = int(*g.Weight)
			}
			groups, weight, sum = append(groups, aws.ToString(g.TargetGroupArn)), append(weight, n), sum+n
		}
	}
	if len(groups) == 0 && a.TargetGroupArn != nil {
		return []string{*a.TargetGroupArn}, []int{1}, 1
	}
	return groups, weight, sum
}

// chosen returns one of the target groups that an action forwards to, by chance according to their weights, or "".
func chosen(a elbv2types.Action) string {
	groups, weight, sum := weights(a)
	if sum == 0 {
		return ""
	}
	n := rand.IntN(sum) //nolint:gosec // not a secret
	for i, w := range weight {
		if n < w {
			return groups[i]
		}
		n -= w
	}
	return ""
}
