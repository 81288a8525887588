package ec2_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// TestMain checks, after all tests have run, that every error code of the package was returned over
// HTTP by some test.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.list").Value.String() == ""
	if code == 0 && all && !testing.Short() {
		if missing := answered.missing(); len(missing) > 0 {
			fmt.Printf("FAIL: no test gets these error codes from a call: %s\n", strings.Join(missing, " "))
			code = 1
		}
	}
	os.Exit(code)
}

// answered are the error codes in the responses of all worlds.
var answered = &codes{seen: map[string]bool{}}

type codes struct {
	mu   sync.Mutex
	seen map[string]bool
}

// codeElement matches codes in responses: of an error, or of an unsuccessful item.
var codeElement = regexp.MustCompile(`<(?:[cC]ode|errorCode|failureCode)>([A-Za-z0-9.]+)<`)

// maxScanned is the maximum size of responses that are searched for codes.
const maxScanned = 256 << 10

// A codeRecorder records the codes in responses.
type codeRecorder struct {
	next  aws.HTTPClient
	codes *codes
}

func (r codeRecorder) Do(req *http.Request) (*http.Response, error) {
	res, err := r.next.Do(req)
	if err != nil || res.ContentLength > maxScanned {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if err := res.Body.Close(); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) <= maxScanned {
		r.codes.mu.Lock()
		defer r.codes.mu.Unlock()
		for _, m := range codeElement.FindAllSubmatch(body, -1) {
			r.codes.seen[string(m[1])] = true
		}
	}
	return res, nil
}

// unreachable are codes that no single call can produce.
const unreachable = "UnauthorizedOperation" // from the authorizer, which these worlds do not have

// missing searches the sources of EC2's packages for codes that no test has returned.
func (c *codes) missing() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	note := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		if code, _ := strconv.Unquote(lit.Value); code != "" && !c.seen[code] && !strings.Contains(unreachable, code) {
			out = append(out, code)
		}
	}
	scanned := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		inside := file.Name.Name == "ec2err"
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				name := ""
				switch f := n.Fun.(type) {
				case *ast.Ident:
					if inside {
						name = f.Name
					}
				case *ast.SelectorExpr:
					if pkg, ok := f.X.(*ast.Ident); ok && (pkg.Name == "awserr" || pkg.Name == "ec2err") {
						name = f.Sel.Name
					}
				}
				if slices.Contains([]string{"New", "Newf", "Limit"}, name) && len(n.Args) > 1 {
					scanned++
					note(n.Args[0])
				}
			case *ast.CompositeLit:
				if t, ok := n.Type.(*ast.Ident); ok && t.Name == "IDKind" && len(n.Elts) == 5 {
					scanned++
					note(n.Elts[1])
					note(n.Elts[2])
				}
			}
			return true
		})
		return nil
	})
	if err != nil || scanned < 100 {
		out = append(out, fmt.Sprintf("(the search found %d places: %v)", scanned, err))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Every list operation with IDs rejects malformed and unknown ones.
func TestListingsByIDs(t *testing.T) {
	w := newWorld(t)
	client := reflect.ValueOf(w.Client)
	prefix := map[string]string{
		"AllocationIds": "eipalloc", "DhcpOptionsIds": "dopt", "EgressOnlyInternetGatewayIds": "eigw", "FleetIds": "fleet", "FlowLogIds": "fl", "GroupIds": "sg",
		"ImageIds": "ami", "InstanceConnectEndpointIds": "eice", "InstanceIds": "i", "InternetGatewayIds": "igw", "KeyPairIds": "key", "LaunchTemplateIds": "lt",
		"NatGatewayIds": "nat", "NetworkAclIds": "acl", "NetworkInsightsAnalysisIds": "nia", "NetworkInsightsPathIds": "nip", "NetworkInterfaceIds": "eni",
		"PrefixListIds": "pl", "RouteTableIds": "rtb", "SecurityGroupRuleIds": "sgr", "SpotInstanceRequestIds": "sir", "SubnetIds": "subnet", "VolumeIds": "vol",
		"VpcEndpointIds": "vpce", "VpcIds": "vpc", "VpcPeeringConnectionIds": "pcx", "CapacityReservationIds": "cr", "AssociationIds": "iip-assoc",
		"TransitGatewayIds": "tgw", "TransitGatewayAttachmentIds": "tgw-attach", "TransitGatewayRouteTableIds": "tgw-rtb", "VpnGatewayIds": "vgw", "CustomerGatewayIds": "cgw", "VpnConnectionIds": "vpn",
	}
	for _, op := range w.service.AWS().Operations {
		if !strings.HasPrefix(op.Name, "Describe") {
			continue
		}
		method := client.MethodByName(op.Name)
		in := reflect.New(method.Type().In(1).Elem())
		for n := range in.Elem().NumField() {
			kind, known := prefix[in.Elem().Type().Field(n).Name]
			if !known || op.Name == "DescribePlacementGroups" || !slices.Contains(strings.Fields(op.Members), in.Elem().Type().Field(n).Name) {
				continue
			}
			in.Elem().Field(n).Set(reflect.ValueOf([]string{kind + "-00000000000000000"}))
			if out := method.Call([]reflect.Value{reflect.ValueOf(t.Context()), in}); out[1].IsNil() && op.Name != "DescribeFleets" {
				t.Errorf("%s finds %s-00000000000000000", op.Name, kind)
			}
			in.Elem().Field(n).Set(reflect.ValueOf([]string{"garbage"}))
			if out := method.Call([]reflect.Value{reflect.ValueOf(t.Context()), in}); out[1].IsNil() {
				t.Errorf("%s finds garbage", op.Name)
			}
		}
	}
}
