// Package wirefuzz holds no code, only fuzz targets for the decoders of package wire. They are separate from its
// tests because fuzzing instruments everything that they link, which takes minutes for the SDK's EC2 package alone.
package wirefuzz
