package twin

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/drydock-dev/drydock/internal/gunzip"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// What a redacted value is replaced with has its length and shape: letters stay letters, digits stay digits.

// secretWords are what the names of secret values contain.
const secretWords = `(?:secret|passw(?:or)?d|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?\b|\b_?auth\b)`

var (
	// NAME=value, NAME: value and "NAME": "value" with a secret's name.
	namedSecret = regexp.MustCompile(`(?i)(["']?[A-Z0-9_.\-]*` + secretWords + `[A-Z0-9_.\-]*["']?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|[^\s"',;]+)`)
	// Options such as --password VALUE.
	optionSecret = regexp.MustCompile(`(?i)(--?[a-z0-9\-]*` + secretWords + `[a-z0-9\-]*[ =])("[^"\n]*"|'[^'\n]*'|[^\s"']+)`)
	// Values that are secret by their form: access keys, tokens of well-known kinds.
	formSecret = regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bxox[abpr]-[A-Za-z0-9\-]{10,}\b|\beyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]*`)
	bearer     = regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9+/._=\-]{8,})`)
	urlSecret  = regexp.MustCompile(`(://[^/\s:@]*:)([^/\s@]+)(@)`)
	privateKey = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.*?)(-----END [A-Z ]*PRIVATE KEY-----)`)
	// harmless are names that look like a secret's: those of the metadata service's token, and of files with secrets.
	harmless = regexp.MustCompile(`(?i)metadata-token|http-?tokens|(?:file|path)["']?\s*[:=]?\s*$`)
)

// mask keeps the length and the shape of a value. References to variables and commands stay, because they show no value.
func mask(value string) string {
	if strings.HasPrefix(strings.Trim(value, `"'`), "$") {
		return value
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return 'x'
		case c >= 'A' && c <= 'Z':
			return 'X'
		case c >= '0' && c <= '9':
			return '0'
		case c > 127:
			return 'x'
		}
		return c
	}, value)
}

// Redact masks what is secret in a text, by the rules above, also where the text holds other text in base64.
func Redact(text string) string { return redactText(text, mostNested) }

// mostNested is how deep texts are unpacked: a gzipped message whose parts are in base64 has two levels.
const mostNested = 4

func redactText(text string, nested int) string {
	second := func(re *regexp.Regexp, text string) string {
		return re.ReplaceAllStringFunc(text, func(found string) string {
			part := re.FindStringSubmatch(found)
			if harmless.MatchString(part[1]) {
				return found
			}
			out := part[1] + mask(part[2])
			return out + strings.Join(part[3:], "")
		})
	}
	for _, re := range []*regexp.Regexp{privateKey, urlSecret, bearer, namedSecret, optionSecret} {
		text = second(re, text)
	}
	text = formSecret.ReplaceAllStringFunc(text, mask)
	if nested == 0 {
		return text
	}
	for _, re := range base64Forms {
		text = re.ReplaceAllStringFunc(text, func(found string) string { return redactBase64(found, nested-1) })
	}
	return text
}

// base64Forms match base64: wrapped, as in a MIME message or in YAML, then on one line. Both may have either alphabet, and lack the padding.
var base64Forms = []*regexp.Regexp{
	regexp.MustCompile(`(?m)(?:^[ \t]*[A-Za-z0-9+/]{60,}\r?\n)+[ \t]*[A-Za-z0-9+/]+={0,2}\r?$`),
	regexp.MustCompile(`(?m)(?:^[ \t]*[A-Za-z0-9_\-]{60,}\r?\n)+[ \t]*[A-Za-z0-9_\-]+={0,2}\r?$`),
	regexp.MustCompile(`[A-Za-z0-9+/]{16,}={0,2}`),
	regexp.MustCompile(`[A-Za-z0-9_\-]{16,}={0,2}`),
}

// redactBase64 masks what is secret in the text that base64 stands for. What does not stand for text is returned as it is.
func redactBase64(encoded string, nested int) string {
	if out, ok := redactEncoded(encoded, nested); ok {
		return out
	}
	if i := strings.LastIndexByte(encoded, '\n'); i > 0 { // the last line may be what ends a here-document
		if out, ok := redactEncoded(encoded[:i], nested); ok {
			return out + encoded[i:]
		}
	}
	return encoded
}

// redactEncoded is redactBase64. It returns false if the base64 does not stand for text.
func redactEncoded(encoded string, nested int) (string, bool) {
	packed := strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(encoded)
	padded := packed
	packed = strings.TrimRight(packed, "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(packed, "-_") {
		encoding = base64.RawURLEncoding
	}
	raw, err := encoding.DecodeString(packed)
	was := raw
	if wide, ok := fromUTF16(raw); err == nil && ok {
		raw = toUTF16(redactText(wide, nested))
	} else if err == nil && (gunzip.Is(raw) || utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0) {
		raw = redactBytes(raw, nested)
	} else {
		return "", false
	}
	if bytes.Equal(raw, was) { // text may differ from what was given in bits that stand for nothing
		return encoded, true
	}
	text := encoding.EncodeToString(raw)
	if len(text) != len(packed) {
		if padded != packed || len(packed)%4 == 0 { // it had, or needed no padding
			text += strings.Repeat("=", (4-len(text)%4)%4)
		}
		return encoded[:len(encoded)-len(strings.TrimLeft(encoded, " \t"))] + text, true
	}
	i := 0
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(" \t\r\n=", c) {
			return c
		}
		i++
		return rune(text[i-1])
	}, encoded), true
}

// fromUTF16 returns the text that bytes are in UTF-16, as PowerShell's -EncodedCommand takes it, or false if they are not. It is the encoding
// of Windows, with the low byte first.
func fromUTF16(raw []byte) (string, bool) {
	if len(raw)%2 != 0 || bytes.IndexByte(raw, 0) < 0 {
		return "", false
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	text := string(utf16.Decode(units))
	return text, !strings.ContainsAny(text, "\x00\uFFFD") && bytes.Equal(toUTF16(text), raw)
}

func toUTF16(text string) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, unit)
	}
	return out
}

// redactBytes masks what is secret in a text that may be gzipped. What is not text is left out entirely, but keeps its length.
func redactBytes(raw []byte, nested int) []byte {
	if gunzip.Is(raw) && nested > 0 {
		if text, err := gunzip.Bytes(raw, maxUnpacked); err == nil {
			if masked := redactBytes(text, nested-1); !bytes.Equal(masked, text) {
				return gzipOf(masked)
			}
			return raw
		}
	}
	if gunzip.Is(raw) || bytes.IndexByte(raw, 0) >= 0 {
		return bytes.Repeat([]byte("x"), len(raw))
	}
	return []byte(redactText(string(raw), nested))
}

// maxUnpacked bounds what gzipped user data, of which EC2 takes 16 KiB, unpacks to.
const maxUnpacked = 1 << 20

func gzipOf(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err) // memory can always be written to
	}
	return b.Bytes()
}

// RedactUserData masks what is secret in user data, which is in base64 and may be gzipped. A cluster's endpoint, certificate
// authority and name are not secret.
func RedactUserData(encoded string) string {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return mask(encoded)
	}
	masked := redactBytes(raw, mostNested)
	if bytes.Equal(masked, raw) {
		return encoded
	}
	return base64.StdEncoding.EncodeToString(masked)
}

// UserDataText returns user data, which is in base64 and may be gzipped, as text.
func UserDataText(encoded string) string {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	if text, err := gunzip.Bytes(raw, maxUnpacked); err == nil {
		return string(text)
	}
	return string(raw)
}

// secretName matches the names of secret values.
var secretName = regexp.MustCompile(`(?i)` + secretWords)

// StripObject removes from a Kubernetes object of a list what is not kept: the values of Secrets, of which the keys
// stay, unless secrets is set, and what servers add to objects for themselves.
func StripObject(q recording.KubernetesList, o map[string]any, secrets bool) {
	if meta, ok := o["metadata"].(map[string]any); ok {
		if fields, _ := meta["managedFields"].([]any); !slices.ContainsFunc(fields, byEKS) {
			delete(meta, "managedFields") // large; those of add-ons say which fields an update may not overwrite
		}
		if notes, ok := meta["annotations"].(map[string]any); ok {
			delete(notes, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	if !q.IsSecrets() || secrets { // whatever kind the source says that they are
		return
	}
	delete(o, "stringData")
	data, _ := o["data"].(map[string]any)
	for key := range data {
		data[key] = ""
		if key == ".dockerconfigjson" || key == ".dockercfg" { // which API servers check
			data[key] = base64.StdEncoding.EncodeToString([]byte("{}"))
		}
	}
}

// byEKS reports whether an entry of managedFields is about fields that EKS manages.
func byEKS(entry any) bool {
	e, _ := entry.(map[string]any)
	return e["manager"] == "eks"
}

// plain matches the names of fields that never hold a secret, although they may contain a secret's word: names of objects,
// and images, whose tags look like values.
var plain = regexp.MustCompile(`(?i)(?:name|ref|namespace|image)$`)

// RedactObject masks secrets in a Kubernetes object of a kind: in values of variables and headers, arguments, annotations,
// ConfigMaps, and in all texts of a custom resource. It reports whether there were any.
func RedactObject(kind string, o map[string]any) bool {
	found := false
	version, _ := o["apiVersion"].(string) // API servers omit this in lists, except of custom resources
	group, _, _ := strings.Cut(version, "/")
	custom := strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
	text := func(name, value string) string {
		out := Redact(value)
		if secretName.MatchString(name) && !harmless.MatchString(name) {
			out = mask(value)
		}
		found = found || out != value
		return out
	}
	each := func(values map[string]any, named bool) {
		for key, v := range values {
			if s, ok := v.(string); ok && named {
				values[key] = text(key, s)
			} else if ok {
				values[key] = text("", s)
			}
		}
	}
	meta, _ := o["metadata"].(map[string]any)
	if data, ok := o["data"].(map[string]any); ok && kind == "ConfigMap" && (meta["namespace"] != "kube-system" || meta["name"] != "aws-auth") { // which has none
		each(data, true)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			name, _ := v["name"].(string)
			if s, ok := v["value"].(string); ok && name != "" { // a variable, a header, a parameter
				v["value"] = text(name, s)
			}
			for key, child := range v {
				list, isList := child.([]any)
				values, isMap := child.(map[string]any)
				s, isText := child.(string)
				switch {
				case key == "annotations" && isMap:
					each(values, false) // their names often contain words such as token
				case key == "env" && isMap:
					each(values, true)
				case isList && (key == "args" || key == "command"):
					option := ""
					for i, e := range list {
						s, _ := e.(string)
						list[i] = text(option, s)
						if option = ""; strings.HasPrefix(s, "-") && !strings.Contains(s, "=") {
							option = s
						}
					}
				case isText && custom && !plain.MatchString(key) && (key != "value" || name == ""):
					v[key] = text(key, s)
				default:
					walk(child)
				}
			}
		}
	}
	walk(o)
	return found
}
