package store

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Fingerprint identifies the JSON form of the collection's records: the names and kinds of all fields, including
// those of SDK types. If it changes, the records need a new version.
func (d *Declaration) Fingerprint() string {
	sum := sha256.Sum256([]byte(d.Form()))
	return hex.EncodeToString(sum[:8])
}

// Form describes the JSON form of the collection's records, one line per field.
func (d *Declaration) Form() string {
	var b strings.Builder
	writeForm(&b, d.Record, "", nil)
	return b.String()
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// writeForm describes t. within lists the structs that contain it.
func writeForm(b *strings.Builder, t reflect.Type, indent string, within []reflect.Type) {
	for _, custom := range []reflect.Type{marshaler, textMarshaler} {
		if t.Implements(custom) || reflect.PointerTo(t).Implements(custom) {
			fmt.Fprintf(b, "%s\n", t) // the type encodes itself
			return
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		b.WriteString("*")
		writeForm(b, t.Elem(), indent, within)
	case reflect.Slice, reflect.Array:
		b.WriteString("[]")
		writeForm(b, t.Elem(), indent, within)
	case reflect.Map:
		fmt.Fprintf(b, "map[%s]", t.Key().Kind())
		writeForm(b, t.Elem(), indent, within)
	case reflect.Struct:
		for i, outer := range within {
			if outer == t {
				fmt.Fprintf(b, "recursive %d\n", len(within)-i)
				return
			}
		}
		b.WriteString("struct\n")
		writeFields(b, t, indent+"\t", append(within[:len(within):len(within)], t))
	default:
		fmt.Fprintf(b, "%s\n", t.Kind())
	}
}

func writeFields(b *strings.Builder, t reflect.Type, indent string, within []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		elem := f.Type
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		switch {
		case name == "-" && options == "":
			continue
		case f.Anonymous && name == "" && elem.Kind() == reflect.Struct:
			writeFields(b, elem, indent, within)
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		if strings.Contains(options, "string") {
			name += " as string"
		}
		fmt.Fprintf(b, "%s%s ", indent, name)
		writeForm(b, f.Type, indent, within)
	}
}
