// Package layers has the names by which machines that run containers share the layers of images: one copy for all machines of a
// daemon.
//
// For each archive of images NAME.tar, the daemon lets a process without anything else unpack the layers, each once, into a folder
// named by its chain ID, and then writes NAME.shared: the archive without layers, which machines import. A folder in it is named
// for each layer that the images have. If the modification times of the two files differ, the archive has not been unpacked yet.
// If NAME.shared is empty, it could not be, and each machine imports the archive itself.
//
// Used by package machine/containers, and by internal/node/containers/programs on machines. It does not depend on anything.
package layers

const (
	// Mode is the child mode of drydock-node that unpacks an archive. Its files are the folder of layers as a detached mount,
	// the archive, and the file that gets the archive without layers.
	Mode = "unpack"
	// Dir is the folder of layers, below that of the archives.
	Dir = "layers"
	// Archive and Shared are the suffixes of an archive with and without layers.
	Archive, Shared = ".tar", ".shared"
)

// What the folder of a layer has.
const (
	// Files are the layer's, as overlayfs wants them, and Usage what they take, as a snapshots.Usage in JSON.
	Files, Usage = "fs", "usage"
	// Retired says that no archive has the layer any more, so no machine may begin to use it. It has the IDs of the machines
	// that may have begun before.
	Retired = "retired"
)
