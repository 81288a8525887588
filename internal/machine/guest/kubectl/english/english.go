// Package english keeps kubectl from reading its translations. Its packages do that when they are initialized, which
// costs every process of the program tens of milliseconds. Without translations, their texts are the English ones of
// the source, whatever LANG is.
//
// The packages that translate must be initialized later than this one. Go initializes packages in the order of their
// import paths, as far as their imports allow, and this path sorts before k8s.io/kubectl's.
package english

import "k8s.io/kubectl/pkg/util/i18n"

func init() {
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err) // the order above does not hold
	}
}
