// Package wirefuzz holds no code, only fuzz targets for the decoders of package
// wire. They are apart from its tests because fuzzing builds everything they link
// with instrumentation, and the SDK's EC2 package alone takes minutes of that.
package wirefuzz
