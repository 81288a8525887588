package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
)

// environment are the answers of acctest's functions about where the tests run.
var environment = map[string]string{
	"Region": "us-west-2", "AlternateRegion": "us-east-1", "ThirdRegion": "us-east-2", "Partition": "aws", "PartitionDNSSuffix": "amazonaws.com", "PartitionReverseDNSPrefix": "com.amazonaws",
	"AlternateRegionPartition": "aws",
}

const letters = "abcdefghijklmnopqrstuvwxyz"

func random(n int, from string) string {
	var b strings.Builder
	for range n {
		b.WriteByte(from[rand.IntN(len(from))])
	}
	return b.String()
}

func (e *evaluator) external(pkg, name string, args []any) any {
	all := args
	if len(args) > 0 && args[0] == nil { // acctest's functions take the *testing.T, the SDK's of the same names do not
		args = args[1:]
	}
	str := func(i int) string {
		if i >= len(args) {
			fail("%s has too few arguments", name)
		}
		return text(args[i])
	}
	num := func(i int) int {
		n, ok := args[i].(int)
		if !ok {
			fail("%s of something unknown", name)
		}
		return n
	}
	strs := func(v any) []string {
		list, ok := v.([]any)
		if !ok {
			fail("%s of something unknown", name)
		}
		var out []string
		for _, s := range list {
			out = append(out, text(s))
		}
		return out
	}
	base := path.Base(pkg)
	switch base + "." + name {
	case "fmt.Sprintf", "fmt.Sprint", "fmt.Errorf":
		for _, a := range args {
			if u, ok := a.(unknown); ok {
				panic(u)
			}
		}
		if name == "Sprint" {
			return fmt.Sprint(args...)
		}
		return fmt.Sprintf(str(0), args[1:]...)
	case "strings.Join":
		return strings.Join(strs(args[0]), str(1))
	case "strings.Repeat":
		return strings.Repeat(str(0), num(1))
	case "strings.ReplaceAll":
		return strings.ReplaceAll(str(0), str(1), str(2))
	case "strings.Replace":
		return strings.Replace(str(0), str(1), str(2), num(3))
	case "strings.ToUpper":
		return strings.ToUpper(str(0))
	case "strings.ToLower":
		return strings.ToLower(str(0))
	case "strings.Contains":
		return strings.Contains(str(0), str(1))
	case "strings.HasPrefix":
		return strings.HasPrefix(str(0), str(1))
	case "strings.HasSuffix":
		return strings.HasSuffix(str(0), str(1))
	case "testing.Short":
		return false
	case "os.Getenv":
		return ""
	case "strings.TrimSpace":
		return strings.TrimSpace(str(0))
	case "strings.Trim":
		return strings.Trim(str(0), str(1))
	case "strings.TrimSuffix":
		return strings.TrimSuffix(str(0), str(1))
	case "strings.TrimPrefix":
		return strings.TrimPrefix(str(0), str(1))
	case "strconv.Quote":
		return strconv.Quote(str(0))
	case "strconv.Itoa", "strconv.FormatBool", "strconv.FormatInt":
		return str(0)
	case "aws.String", "aws.StringValue", "aws.ToString", "aws.Int64", "aws.Int32", "aws.Bool":
		return args[0]
	case "acctest.ConfigCompose":
		var b strings.Builder
		for i := range args {
			b.WriteString(str(i))
		}
		return b.String()
	case "acctest.RandomWithPrefix":
		return str(0) + "-" + random(18, "123456789")
	case "acctest.RandString":
		return random(num(0), letters)
	case "acctest.RandStringFromCharSet":
		return random(num(0), cmp.Or(str(1), letters))
	case "acctest.RandInt":
		return rand.IntN(1 << 31)
	case "acctest.RandIntRange":
		return num(0) + rand.IntN(num(1)-num(0))
	case "acctest.RandomDomainName":
		return random(8, letters) + ".com"
	case "acctest.RandomSubdomain":
		return random(8, letters) + "." + random(8, letters) + ".com"
	case "acctest.RandomEmailAddress":
		return random(8, letters) + "@" + str(0)
	case "acctest.DefaultEmailAddress":
		return "no-reply@hashicorp.com"
	case "acctest.TLSPEMEscapeNewlines":
		return strings.ReplaceAll(str(0), "\n", "\\n")
	case "acctest.TLSPEMRemoveNewlines":
		return strings.ReplaceAll(str(0), "\n", "")
	case "acctest.TLSRSAPrivateKeyPEM":
		return privateKey()
	case "acctest.TLSRSAPublicKeyPEM":
		return publicKey(str(0))
	case "acctest.TLSRSAX509SelfSignedCertificatePEM":
		return selfSigned(str(0), str(1))
	case "acctest.RandSSHKeyPair":
		return tuple{sshKey(str(0)), privateKey(), nil}
	}
	if v, ok := environment[name]; ok && base == "acctest" {
		return v
	}
	if strings.HasPrefix(pkg, providerPath) {
		return e.call(e.load(pkg, false), name, all)
	}
	if strings.Contains(pkg, "aws-sdk-go") && len(args) == 1 {
		return args[0] // a conversion to one of its types
	}
	fail("%s.%s is not known", base, name)
	return nil
}
