// Package wirefuzz holds no code, only fuzz targets for the decoders of package wire. They are separate from its
// tests because fuzzing instruments everything that they link; for the SDK's EC2 package alone, that takes minutes.
package wirefuzz
