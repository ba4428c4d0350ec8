import { t } from '../../lib/i18n';
import { type Graph, inputsOf } from './graph';

/** InputField is a field of the form of a run's inputs. */
export interface InputField {
  name: string;
  type: 'string' | 'number' | 'integer' | 'boolean' | 'json';
  options?: string[];
  required: boolean;
  hint?: string;
  initial: string; // as the form writes it
}

interface Property {
  type?: string;
  enum?: unknown[];
  description?: string;
  default?: unknown;
}

/** fieldsOf returns the inputs that the start node declares, and those that nodes refer to. */
export function fieldsOf(graph: Graph): InputField[] {
  const schema = graph.nodes?.find((one) => one.type === 'start')?.output_schema;
  const properties = (schema?.properties ?? {}) as Record<string, Property | undefined>;
  const required = Array.isArray(schema?.required) ? (schema.required as string[]) : [];
  return Object.keys(inputsOf(graph)).map((name) => {
    const property = properties[name];
    const options = property?.enum?.every((one) => typeof one === 'string') ? (property.enum as string[]) : undefined;
    const type = typeOf(property);
    const given = property?.default;
    return {
      name, type, required: required.includes(name) || (!property && type === 'string'), ...(options ? { options } : {}),
      ...(property?.description ? { hint: property.description } : {}),
      initial: given === undefined ? '' : type === 'string' && typeof given === 'string' ? given : JSON.stringify(given),
    };
  });
}

function typeOf(property: Property | undefined): InputField['type'] {
  switch (property?.type) {
    case 'number': case 'integer': case 'boolean': return property.type;
    case 'string': case undefined: return property?.type === undefined && property?.enum ? 'json' : 'string';
    default: return 'json';
  }
}

/** inputsFrom reads the form: the inputs, or the errors of fields. What is optional and empty is left out. */
export function inputsFrom(
  fields: readonly InputField[], texts: Readonly<Record<string, string>>,
): { inputs: Record<string, unknown>; errors: Record<string, string> } {
  const inputs: Record<string, unknown> = {};
  const errors: Record<string, string> = {};
  for (const { name, type, required, initial } of fields) {
    const text = texts[name] ?? initial;
    if (type === 'boolean') inputs[name] = text === 'true';
    else if (text.trim() === '') {
      if (required && type !== 'string') errors[name] = t('Enter a value.');
      else if (required) inputs[name] = text;
    } else if (type === 'string') inputs[name] = text;
    else {
      try {
        inputs[name] = JSON.parse(text) as unknown;
      } catch {
        errors[name] = type === 'json' ? t('This must be JSON.') : t('This must be a number.');
      }
    }
  }
  return { inputs, errors };
}

/** valueOf reads JSON, and any other text as itself. */
export function valueOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** before returns the nodes from which edges lead to a node, over any number of others. */
export function before(graph: Graph, id: string): string[] {
  const found = new Set<string>();
  const visit = (target: string): void => {
    for (const { source } of (graph.edges ?? []).filter((edge) => edge.target === target)) {
      if (source === id || found.has(source)) continue;
      found.add(source);
      visit(source);
    }
  };
  visit(id);
  return (graph.nodes ?? []).filter((one) => found.has(one.id) && one.type !== 'start').map((one) => one.id);
}
