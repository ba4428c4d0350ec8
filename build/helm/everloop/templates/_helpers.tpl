{{- define "everloop.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "everloop.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.Version) }}
{{- end -}}

{{- define "everloop.selector" -}}
app.kubernetes.io/name: everloop
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{- define "everloop.labels" -}}
{{ include "everloop.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- /* url of another role of this release: (list . "identity" "19000") */ -}}
{{- define "everloop.url" -}}
{{- $root := index . 0 -}}
http://{{ include "everloop.name" $root }}-{{ index . 1 }}:{{ index . 2 }}
{{- end -}}

{{- /* Variables from the Secret, none of which is given to a role that does not need it. */ -}}
{{- define "everloop.secrets" -}}
{{- $name := .root.Values.secretName -}}
{{- range .required }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $name | quote }}, key: {{ . }}}}
{{- end }}
{{- range .optional }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $name | quote }}, key: {{ . }}, optional: true}}
{{- end }}
{{- end -}}

{{- define "everloop.allowedHosts" -}}
{{ concat (list (printf "%s-%s" (include "everloop.name" .root) .role)) .root.Values.hosts | join "," | quote }}
{{- end -}}

{{- /* What the API and the workers share. */ -}}
{{- define "everloop.agentEnv" -}}
{{- $v := .root.Values -}}
{{ include "everloop.secrets" (dict "root" .root
  "required" (list "DATABASE_URL" "NATS_URL" "S3_ACCESS_KEY" "S3_SECRET_KEY" "ENCRYPTION_KEY" "LLM_GATEWAY_KEY")
  "optional" (list "TEMPORAL_API_KEY")) }}
- {name: LOG_FORMAT, value: json}
- {name: TEMPORAL_ADDRESS, value: {{ $v.engines.temporal.address | quote }}}
- {name: TEMPORAL_NAMESPACE, value: {{ $v.engines.temporal.namespace | quote }}}
- {name: TEMPORAL_UI_URL, value: {{ $v.engines.temporal.uiURL | quote }}}
- {name: TEMPORAL_TLS, value: {{ $v.engines.temporal.tls | quote }}}
- {name: NATS_REPLICAS, value: {{ $v.engines.nats.replicas | quote }}}
- {name: S3_ENDPOINT, value: {{ $v.engines.s3.endpoint | quote }}}
- {name: S3_BUCKET, value: {{ $v.engines.s3.bucket | quote }}}
- {name: S3_USE_TLS, value: {{ $v.engines.s3.useTLS | quote }}}
- {name: SANDBOX_NETWORK, value: {{ $v.sandbox.network | quote }}}
- {name: LLM_GATEWAY_URL, value: {{ $v.llmGatewayURL | default (include "everloop.url" (list .root "gateway" "30000")) | quote }}}
- {name: LLM_MODEL, value: {{ $v.llmModel | quote }}}
{{- if $v.identity.enabled }}
- {name: IDENTITY_URL, value: {{ include "everloop.url" (list .root "identity" "19000") | quote }}}
{{- end }}
{{- if $v.registry.enabled }}
- {name: REGISTRY_URL, value: {{ include "everloop.url" (list .root "registry" "8010") | quote }}}
{{- end }}
{{- if $v.git.enabled }}
- {name: GIT_URL, value: {{ include "everloop.url" (list .root "git" "30030") | quote }}}
{{- end }}
{{- range $name, $value := $v.extraEnv }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- /* Files that the API and the workers share. */ -}}
{{- define "everloop.agentMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: data, mountPath: /data}
- {name: files, mountPath: /data/workspace, subPath: workspace}
- {name: files, mountPath: /data/agent_env, subPath: agent_env}
- {name: files, mountPath: /data/solutions, subPath: solutions}
{{- end -}}

{{- define "everloop.agentVolumes" -}}
- {name: tmp, emptyDir: {medium: Memory, sizeLimit: 256Mi}}
- {name: data, emptyDir: {}}
- name: files
  persistentVolumeClaim:
    claimName: {{ .Values.sharedFiles.existingClaim | default (printf "%s-files" (include "everloop.name" .)) }}
{{- end -}}

{{- define "everloop.nonRoot" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "everloop.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "everloop.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end -}}
