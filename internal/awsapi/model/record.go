package model

// A Record is one line of a compact model: exactly one of its parts is set.
// Records are what tools/modelgen writes and Parse reads.
type Record struct {
	Metadata  *MetadataRecord  `json:"metadata,omitempty"`
	Operation *OperationRecord `json:"operation,omitempty"`
	Shape     *ShapeRecord     `json:"shape,omitempty"`
}

// MetadataRecord is the service's own line, the first of a model.
type MetadataRecord struct {
	Name            string `json:"name"`
	Package         string `json:"package"`
	ServiceID       string `json:"serviceId,omitempty"`
	Protocol        string `json:"protocol"`
	JSONVersion     string `json:"jsonVersion,omitempty"`
	TargetPrefix    string `json:"targetPrefix,omitempty"`
	APIVersion      string `json:"apiVersion,omitempty"`
	EndpointPrefix  string `json:"endpointPrefix,omitempty"`
	GlobalEndpoint  string `json:"globalEndpoint,omitempty"`
	SigningName     string `json:"signingName,omitempty"`
	XMLNamespace    string `json:"xmlNamespace,omitempty"`
	QueryCompatible bool   `json:"queryCompatible,omitempty"`
}

// OperationRecord is one operation's line.
type OperationRecord struct {
	Name           string   `json:"name"`
	Method         string   `json:"method,omitempty"` // POST when empty
	URI            string   `json:"uri,omitempty"`    // "/" when empty
	Status         int      `json:"status,omitempty"` // 200 when 0
	Input          string   `json:"input,omitempty"`
	InputElement   string   `json:"inputElement,omitempty"`
	InputNamespace string   `json:"inputNamespace,omitempty"`
	Output         string   `json:"output,omitempty"`
	ResultWrapper  string   `json:"resultWrapper,omitempty"`
	Errors         []string `json:"errors,omitempty"`
	HostPrefix     string   `json:"hostPrefix,omitempty"`
	Unsigned       bool     `json:"unsigned,omitempty"`
	Deprecated     bool     `json:"deprecated,omitempty"`
}

// ShapeRecord is the line of a structure, list or map, or of a scalar with constraints.
type ShapeRecord struct {
	Name        string          `json:"name"`
	Type        Type            `json:"type"`
	Union       bool            `json:"union,omitempty"`
	Exception   bool            `json:"exception,omitempty"`
	Code        string          `json:"code,omitempty"`
	Status      int             `json:"status,omitempty"`
	ServerFault bool            `json:"serverFault,omitempty"`
	EventStream bool            `json:"eventStream,omitempty"`
	Element     string          `json:"element,omitempty"`
	Namespace   string          `json:"namespace,omitempty"`
	Payload     string          `json:"payload,omitempty"`
	Flattened   bool            `json:"flattened,omitempty"`
	Members     []*MemberRecord `json:"members,omitempty"`
	Elem        *MemberRecord   `json:"elem,omitempty"`
	Key         *MemberRecord   `json:"key,omitempty"`
	Value       *MemberRecord   `json:"value,omitempty"`
	Min         *float64        `json:"min,omitempty"`
	Max         *float64        `json:"max,omitempty"`
	Pattern     string          `json:"pattern,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
}

// MemberRecord is a member within a ShapeRecord. Shape is a scalar's type or a
// named shape.
type MemberRecord struct {
	Name             string   `json:"name,omitempty"`
	Shape            string   `json:"shape,omitempty"` // "string" when empty
	Location         Location `json:"location,omitempty"`
	LocationName     string   `json:"locationName,omitempty"`
	QueryName        string   `json:"queryName,omitempty"`
	Required         bool     `json:"required,omitempty"`
	Flattened        bool     `json:"flattened,omitempty"`
	XMLNamespace     string   `json:"xmlNamespace,omitempty"`
	XMLPrefix        string   `json:"xmlPrefix,omitempty"`
	XMLAttribute     bool     `json:"xmlAttribute,omitempty"`
	IdempotencyToken bool     `json:"idempotencyToken,omitempty"`
	JSONValue        bool     `json:"jsonValue,omitempty"`
	Streaming        bool     `json:"streaming,omitempty"`
	HostLabel        bool     `json:"hostLabel,omitempty"`
	Sensitive        bool     `json:"sensitive,omitempty"`
	EventPayload     bool     `json:"eventPayload,omitempty"`
	EventHeader      bool     `json:"eventHeader,omitempty"`
	TimestampFormat  string   `json:"timestampFormat,omitempty"`
}
