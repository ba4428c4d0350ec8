import { Braces, X } from 'lucide-react';
import { useState } from 'react';
import { t } from '../../lib/i18n';
import { IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Field } from '../../ui/field';

/** Wanted is the one result that the next message asks for; a schema says its form. */
export interface Wanted {
  schema?: object;
}

/** readSchema reads what was typed as a JSON Schema: an object, or nothing. The service checks the schema itself. */
export function readSchema(text: string): Wanted | undefined {
  if (text.trim() === '') return {};
  try {
    const schema: unknown = JSON.parse(text);
    return typeof schema === 'object' && schema !== null && !Array.isArray(schema) ? { schema } : undefined;
  } catch {
    return undefined;
  }
}

const example = '{"type": "object", "required": ["total"],\n "properties": {"total": {"type": "number"}}}';

/** ResultChoice asks for a run without questions that ends with one result. */
export function ResultChoice({ value, change }: { value: Wanted | undefined; change: (value: Wanted | undefined) => void }) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState('');
  const [tried, setTried] = useState(false);
  const read = readSchema(text);
  return (
    <>
      <IconButton
        label={t('Ask for one result')}
        aria-pressed={value !== undefined}
        onClick={() => {
          setTried(false);
          setOpen(true);
        }}
      >
        <Braces size={16} />
      </IconButton>
      <FormDialog
        open={open}
        onOpenChange={setOpen}
        title={t('Ask for one result')}
        description={t('The agent answers the next message without questions and returns one result.')}
        confirm={t('Use it')}
        submit={async () => {
          setTried(true);
          if (!read) throw new Error('no schema');
          change(read);
        }}
      >
        <Field
          label={t('JSON Schema of the result')}
          hint={t('The answer is checked against it. Without one the result is the last text.')}
          error={tried && !read ? t('This must be a JSON object.') : undefined}
        >
          {(ids) => (
            <Area
              {...ids}
              value={text}
              onChange={(event) => setText(event.target.value)}
              placeholder={example}
              spellCheck={false}
              dir="ltr"
              rows={8}
              className="font-mono text-xs"
              autoFocus
            />
          )}
        </Field>
      </FormDialog>
    </>
  );
}

/** ResultChip says what the next message asks for, and takes it back. */
export function ResultChip({ value, remove }: { value: Wanted; remove: () => void }) {
  return (
    <li className="flex max-w-60 items-center gap-2 rounded-md border bg-panel py-1 pr-1 pl-2 text-xs">
      <Braces size={16} className="shrink-0 text-accent" aria-hidden />
      <span className="truncate">{value.schema ? t('One result that follows a schema') : t('One result')}</span>
      <IconButton small label={t('Do not require a result')} onClick={remove}>
        <X size={13} />
      </IconButton>
    </li>
  );
}
