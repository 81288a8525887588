package wire

import (
	"encoding/base64"
	"math"
	"reflect"
	"strconv"
	"time"
)

// setText sets the scalar at v from its text form: query parameters, XML text, headers and path labels. It reports
// whether s is a valid value of that kind.
func (p *plan) setText(v reflect.Value, s string) bool {
	switch p.kind {
	case kindString:
		p.alloc(v).SetString(s)
	case kindBool:
		switch s {
		case "true", "True", "TRUE", "1":
			p.alloc(v).SetBool(true)
		case "false", "False", "FALSE", "0":
			p.alloc(v).SetBool(false)
		default:
			return false
		}
	case kindInt:
		n, err := strconv.ParseInt(s, 10, p.typ.Bits())
		if err != nil {
			return false
		}
		p.alloc(v).SetInt(n)
	case kindFloat:
		f, ok := parseFloat(s, p.typ.Bits())
		if !ok {
			return false
		}
		p.alloc(v).SetFloat(f)
	case kindTime:
		t, ok := parseTime(s)
		if !ok {
			return false
		}
		p.alloc(v).Set(reflect.ValueOf(t))
	case kindBlob:
		b, err := decodeBase64(s)
		if err != nil {
			return false
		}
		p.alloc(v).SetBytes(b)
	default:
		return false
	}
	return true
}

func parseFloat(s string, bits int) (float64, bool) {
	f, err := strconv.ParseFloat(s, bits)
	return f, err == nil
}

// decodeBase64 accepts padded and unpadded base64.
func decodeBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		if b, err2 := base64.RawStdEncoding.DecodeString(s); err2 == nil {
			return b, nil
		}
		return nil, err
	}
	return b, nil
}

// appendText appends the scalar v as text, without escaping.
func (p *plan) appendText(b []byte, v reflect.Value, format string, millis bool) []byte {
	switch p.kind {
	case kindString:
		return append(b, v.String()...)
	case kindBool:
		return strconv.AppendBool(b, v.Bool())
	case kindInt:
		return strconv.AppendInt(b, v.Int(), 10)
	case kindFloat:
		return appendFloat(b, v.Float(), p.typ.Bits())
	case kindTime:
		return appendTime(b, v.Interface().(time.Time), format, millis)
	case kindBlob:
		return base64.StdEncoding.AppendEncode(b, v.Bytes())
	default:
		return b
	}
}

func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, f, 'e', -1, bits)
	}
	return strconv.AppendFloat(b, f, 'f', -1, bits)
}

func isScalar(k kind) bool { return k <= kindBlob }
