import { type Language, language } from '../../lib/i18n';

/** Says in words when an expression is due; `english` is how the service says it. */
type CronText = (cron: string, english: string) => string;

const texts = {
  zh: () => import('cronstrue/locales/zh_CN'),
  ru: () => import('cronstrue/locales/ru'),
};

const names = { zh: 'zh_CN', ru: 'ru' };

/** cronTextIn loads the words of a language. */
export async function cronTextIn(language: Language): Promise<CronText> {
  if (language === 'en') return (_, english) => english;
  const [{ default: cronstrue }] = await Promise.all([import('cronstrue'), texts[language]()]);
  return (cron, english) => {
    const [, , day, , weekday] = cron.trim().split(/\s+/);
    // Of days of the month and of the week either is due: these texts say that both must be.
    if (day !== '*' && weekday !== '*') return english;
    try {
      return cronstrue.toString(cron, { locale: names[language], use24HourTimeFormat: true });
    } catch {
      return english;
    }
  };
}

/** cronText says it in the language of the page. */
export const cronText = await cronTextIn(language);
