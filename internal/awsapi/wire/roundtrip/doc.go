// Package roundtrip holds no code, only the test that sends every operation of every embedded model through the
// official SDK and back: random inputs from the SDK's client to our decoder, and random outputs from our encoder to
// the client. It is separate from package wire because it links the whole SDK.
package roundtrip
